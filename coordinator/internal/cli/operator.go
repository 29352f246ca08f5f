package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// maxAnswer bounds what is read of an answer: thousands of members with thousands
	// of shards fit.
	maxAnswer = 64 << 20
	// The forms of output.
	outputTable = "table"
	outputJSON  = "json"
)

// operator is how a command of an operator reaches coordinators, and how it shows what
// they say.
type operator struct {
	app          App
	coordinators []string
	basePath     string
	username     string
	password     config.Secret
	output       string
	timeout      time.Duration
	// by and reason are kept in the audit of what is changed.
	by, reason string
	client     *http.Client
}

// flags adds the flags that all of these commands have. The password has none: it
// would be seen in the list of processes.
func (o *operator) flags(a App, c *cobra.Command) {
	o.app = a
	o.password = config.Secret(a.getenv("RSC_PASSWORD", config.DefaultPassword))
	f := c.Flags()
	f.StringSliceVar(&o.coordinators, "coordinator", strings.Split(a.getenv("RSC_COORDINATOR", defaultCoordinator), ","), "`URL` of a coordinator, also RSC_COORDINATOR; may be repeated")
	f.StringVar(&o.basePath, "base-path", httpapi.DefaultBasePath, "the coordinators' coordinator.api.base-path")
	f.StringVar(&o.username, "username", a.getenv("RSC_USERNAME", defaultUser), "user for the coordinator, also RSC_USERNAME; the password is RSC_PASSWORD")
	f.StringVarP(&o.output, "output", "o", outputTable, "table, or json: what the coordinator answers")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long an answer may take")
}

// orderFlags adds the flags of a command that changes something.
func (o *operator) orderFlags(c *cobra.Command, reasonNeeded bool) {
	needed := ""
	if reasonNeeded {
		needed = " (needed)"
	}
	c.Flags().StringVar(&o.by, "by", o.app.getenv("USER", "rsc"), "who asks for it, for the audit")
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the audit"+needed)
}

// begin checks the flags.
func (o *operator) begin(named ...flagValue) error {
	var bad []error
	for _, n := range named {
		if n.value == "" {
			bad = append(bad, fmt.Errorf("--%s is needed: %s", n.name, n.what))
		}
	}
	for _, c := range o.coordinators {
		if u, err := url.Parse(c); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad = append(bad, fmt.Errorf("--coordinator must be a URL such as %s, got %q", defaultCoordinator, c))
		}
	}
	if err := httpapi.ValidateBasePath(o.basePath); err != nil {
		bad = append(bad, fmt.Errorf("--base-path %w", err))
	}
	if o.output != outputTable && o.output != outputJSON {
		bad = append(bad, fmt.Errorf("--output must be table or json, got %q", o.output))
	}
	if o.timeout <= 0 {
		bad = append(bad, fmt.Errorf("--timeout must be longer than nothing, got %s", o.timeout))
	}
	o.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, Proxy: http.ProxyFromEnvironment}}
	return asUsage(bad)
}

// flagValue is a flag that must be given.
type flagValue struct{ name, value, what string }

func streamFlag(value string) flagValue {
	return flagValue{"stream", value, "the prefix of the stream's keys, such as --stream orders"}
}

func groupFlag(value string) flagValue {
	return flagValue{"group", value, "the name of the consumer group, such as --group billing"}
}

func reasonFlag(value string) flagValue {
	return flagValue{"reason", value, "it is kept in the audit, such as --reason \"host is replaced\""}
}

// path joins names to a path below the base path.
func path(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString("/" + url.PathEscape(name))
	}
	return b.String()
}

// groupPath is the path of a group below another one.
func groupPath(stream, group string) string { return path("streams", stream, "groups", group) }

// call makes a request and reads the answer, which is also returned as it came.
// Errors: a *protocol.Error that a coordinator answered with, or what kept an answer
// from coming.
func (o *operator) call(ctx context.Context, method, path string, body, answer any) ([]byte, error) {
	var encoded []byte
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	ctx, done := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("no answer within %s", o.timeout))
	defer done()
	var failures []error
	for _, at := range o.coordinators {
		status, told, err := o.send(ctx, method, at, path, encoded)
		switch {
		case err == nil && status < http.StatusMultipleChoices:
			if err := json.Unmarshal(told, answer); err != nil {
				return nil, fmt.Errorf("%s answers something else than a coordinator: %w", at, err)
			}
			return told, nil
		case err == nil:
			return nil, refusal(at, status, told)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		failures = append(failures, fmt.Errorf("%s: %w", at, err))
		if ctx.Err() != nil || method != http.MethodGet && !unsent(err) {
			// It may have been carried out: whoever asks has to look.
			break
		}
	}
	return nil, errors.Join(failures...)
}

// send asks one coordinator.
func (o *operator) send(ctx context.Context, method, at, path string, body []byte) (status int, told []byte, err error) {
	base := strings.TrimSuffix(at, "/") + strings.TrimSuffix(o.basePath, "/")
	request, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.SetBasicAuth(o.username, o.password.Reveal())
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := o.client.Do(request)
	if err != nil {
		var inner *url.Error // it repeats the method and the URL
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	told, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, told, err
}

// unsent reports an error from before anything was sent.
func unsent(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// refusal words what a coordinator has refused with.
func refusal(at string, status int, told []byte) error {
	var body protocol.ErrorBody
	if err := json.Unmarshal(told, &body); err != nil || body.ErrorCode == "" {
		return fmt.Errorf("%s answered %d, and not as a coordinator does", at, status)
	}
	err := &protocol.Error{Code: body.ErrorCode, Message: body.Message}
	if status == http.StatusUnauthorized {
		return fmt.Errorf("%w (the user is --username or RSC_USERNAME, the password RSC_PASSWORD)", err)
	}
	return err
}

// show prints an answer: as it came, or as table writes it.
func (o *operator) show(told []byte, table func(w *tableWriter)) error {
	if o.output == outputJSON {
		var out bytes.Buffer
		if err := json.Indent(&out, told, "", "  "); err != nil {
			return err
		}
		out.WriteByte('\n')
		_, err := o.app.Stdout.Write(out.Bytes())
		return err
	}
	w := &tableWriter{tabs: tabwriter.NewWriter(o.app.Stdout, 0, 8, 2, ' ', 0)}
	table(w)
	return errors.Join(w.err, w.tabs.Flush())
}

// tableWriter writes rows of cells in columns.
type tableWriter struct {
	tabs *tabwriter.Writer
	err  error
}

// row writes a row. A cell without text is a dash, so that columns can be cut by other
// programs.
func (w *tableWriter) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		text := plain(fmt.Sprint(c))
		if text == "" {
			text = "-"
		}
		texts[i] = text
	}
	if _, err := fmt.Fprintln(w.tabs, strings.Join(texts, "\t")); err != nil && w.err == nil {
		w.err = err
	}
}

// line writes a line of text outside of the columns.
func (w *tableWriter) line(format string, args ...any) {
	if _, err := fmt.Fprintln(w.tabs, plain(fmt.Sprintf(format, args...))); err != nil && w.err == nil {
		w.err = err
	}
}

// plain leaves nothing in a text that moves the cursor or ends a cell: names come from
// whoever runs members.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// ago is how long ago something was, by this machine's clock.
func ago(at *time.Time) string {
	if at == nil {
		return ""
	}
	return short(time.Since(*at)) + " ago"
}

// short rounds a duration to what people read.
func short(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// orUnknown shows a number that may not be known.
func orUnknown(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

// shardList shows shards, neighbours together: 0-3,7.
func shardList(shards protocol.Shards) string {
	var b strings.Builder
	for i := 0; i < len(shards); {
		end := i
		for end+1 < len(shards) && shards[end+1] == shards[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, shards[i])
		if end > i {
			fmt.Fprintf(&b, "-%d", shards[end])
		}
		i = end + 1
	}
	return b.String()
}
