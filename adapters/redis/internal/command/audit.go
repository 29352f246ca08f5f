package command

import "context"

// AppendBounded puts a text at the end of a list and drops the oldest beyond most. It
// is not repeated after a lost answer, when the text may be there.
func (c *Client) AppendBounded(ctx context.Context, key, text string, most int) error {
	_, err := c.write(ctx, listAppend, []string{key}, text, most)
	return err
}
