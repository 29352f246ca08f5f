package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"unicode/utf8"
)

// The widths of what a table shows of texts that may be long.
const (
	shownKey    = 32
	shownReason = 80
)

// letterPrinter prints a list of dead letters.
type letterPrinter interface {
	add(d *deadLetter) error
	// end prints what is held back.
	end() error
}

// alignedRows is how many rows are held back to align their columns.
const alignedRows = 500

// letterTable is the list for people.
type letterTable struct {
	out  *tabwriter.Writer
	rows int
}

func newLetterTable(w io.Writer) letterPrinter {
	return &letterTable{out: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

func (t *letterTable) add(d *deadLetter) error {
	shard := "?"
	if d.shard >= 0 {
		shard = strconv.Itoa(d.shard)
	}
	_, err := fmt.Fprintf(t.out, "%s\tshard %s\trecord %s\tdeliveries %d\tgroup %s\tkey %s\t%s\n",
		d.id, shard, shown(d.record, shownKey), d.deliveries, shown(d.group, shownKey), shown(d.key(), shownKey), shown(d.reason, shownReason))
	if t.rows++; err == nil && t.rows%alignedRows == 0 {
		err = t.out.Flush()
	}
	return err
}

func (t *letterTable) end() error { return t.out.Flush() }

// shown makes a text safe for a terminal: as it is when it is plain and short,
// else quoted and cut.
func shown(text string, width int) string {
	cut, dots := text, ""
	if utf8.RuneCountInString(text) > width {
		cut, dots = string([]rune(text[:min(len(text), utf8.UTFMax*width)])[:width]), "…"
	}
	quoted := strconv.QuoteToGraphic(cut)
	if quoted == `"`+cut+`"` && cut != "" {
		return cut + dots
	}
	return quoted + dots
}

// letterLines prints lines of JSON.
type letterLines struct{ out io.Writer }

func (l letterLines) add(d *deadLetter) error {
	line, err := encodeDeadLetter(d, "")
	if err != nil {
		return err
	}
	_, err = l.out.Write(line)
	return err
}

func (letterLines) end() error { return nil }

// letterText is a dead letter in JSON.
type letterText struct {
	ID         string      `json:"id"`
	Shard      int         `json:"shard"` // -1: not known
	Record     string      `json:"record"`
	Deliveries int         `json:"deliveries"`
	Group      string      `json:"group"`
	Member     string      `json:"member"`
	Error      string      `json:"error"`
	Fields     []fieldText `json:"fields"`
}

// fieldText is a field in JSON, in the order of the record. What is no text is in
// base64.
type fieldText struct {
	Name        *string `json:"name,omitempty"`
	NameBinary  []byte  `json:"nameBinary,omitempty"`
	Value       *string `json:"value,omitempty"`
	ValueBinary []byte  `json:"valueBinary,omitempty"`
}

// encodeDeadLetter returns JSON with its end: one line, or indented.
func encodeDeadLetter(d *deadLetter, indent string) ([]byte, error) {
	text := letterText{
		ID: d.id, Shard: d.shard, Record: d.record, Deliveries: d.deliveries, Group: d.group, Member: d.member, Error: d.reason,
		Fields: make([]fieldText, len(d.fields)),
	}
	for i, f := range d.fields {
		text.Fields[i].Name, text.Fields[i].NameBinary = textOrBinary(f.Name)
		text.Fields[i].Value, text.Fields[i].ValueBinary = textOrBinary(f.Value)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(text); err != nil {
		return nil, fmt.Errorf("print dead letter %s: %w", d.id, err)
	}
	return out.Bytes(), nil
}

func textOrBinary(s string) (text *string, binary []byte) {
	if utf8.ValidString(s) {
		return &s, nil
	}
	return nil, []byte(s)
}
