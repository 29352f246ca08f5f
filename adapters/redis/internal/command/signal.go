package command

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Announcement is a message that a script publishes after it has written. An
// empty Channel means none.
type Announcement struct {
	Channel, Text string
}

// mute takes what a script says of its announcement: not sent, where the user may
// not publish on the channel. What was written is written all the same.
func (r *Records) mute(tell Announcement, sent any) {
	if tell.Channel != "" && sent == int64(0) && !r.muted.Swap(true) && r.Muted != nil {
		r.Muted(tell.Channel)
	}
}

const (
	// listenPing is how long nothing may be heard before the connection is tried,
	// and how long it may take to answer then.
	listenPing = 5 * time.Second
	// firstListenPause and longestListenPause lie between attempts to listen.
	firstListenPause   = 50 * time.Millisecond
	longestListenPause = 5 * time.Second
)

// Heard is what comes from a channel.
type Heard struct {
	// Text is a message; empty when listening has begun (again), so that messages
	// may have been missed before.
	Text string
}

// Listen subscribes to a channel and passes on what it hears, until ctx ends; it
// begins again after whatever trouble. trouble, if not nil, is told of each
// different one that keeps it from listening, and of nil when it listens again.
func (c *Client) Listen(ctx context.Context, channel string, hear func(Heard), trouble func(error)) {
	said := ""
	for pause := firstListenPause; ; pause = min(2*pause, longestListenPause) {
		err := c.listenOnce(ctx, channel, func(h Heard) {
			if h.Text == "" {
				pause = firstListenPause
				if said != "" {
					said = ""
					trouble(nil)
				}
			}
			hear(h)
		})
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != said && answered(err) {
			// A connection that broke is nothing special: the store says so too.
			said = text
			trouble(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// listenOnce listens on one connection until it breaks.
func (c *Client) listenOnce(ctx context.Context, channel string, hear func(Heard)) error {
	// Any server of a Cluster passes on what is published at any other. The one
	// that holds the channel's slot is as good as another, and where it is not
	// known yet nothing was asked of the Cluster before.
	server, err := c.nodes.clientFor(ctx, &call{key: channel}, &redirects{})
	if err != nil {
		return err
	}
	sub := server.Subscribe(ctx)
	// It is not the context that ends a read of the library, but this.
	ended := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		if ended() {
			_ = sub.Close() // what was in it is of no use
		}
	}()
	if err := sub.Subscribe(ctx, channel); err != nil {
		return err
	}
	for pinged := false; ; {
		message, err := sub.ReceiveTimeout(ctx, listenPing)
		var late interface{ Timeout() bool }
		switch {
		case err != nil && errors.As(err, &late) && late.Timeout() && !pinged && ctx.Err() == nil:
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			pinged = true
			continue
		case err != nil:
			if c.nodes.cluster != nil {
				c.nodes.cluster.ReloadState(ctx)
			}
			return err
		}
		pinged = false
		switch m := message.(type) {
		case *redis.Subscription:
			hear(Heard{})
		case *redis.Message:
			if m.Payload != "" {
				hear(Heard{Text: m.Payload})
			}
		}
	}
}
