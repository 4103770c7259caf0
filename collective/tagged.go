package collective

import (
	"context"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/tagged"
	"github.com/ringside-go/ringside/collective/protocol"
)

// AnyRank is the sender of a receive with a tag that takes a message of any rank.
const AnyRank = tagged.AnyRank

// SendTag gives buf to a rank, which calls RecvTag with that tag and as many elements of
// that type. Two ranks and a tag are a lane: its messages arrive in their order. Lanes do
// not wait for each other, nor for the group's calls, and any goroutine may use them at
// any time. A message of at most 32 KiB does not wait for its receive, up to 256 KiB of
// them to one rank. While 16,384 messages to one rank wait, further ones are refused
// (ErrBacklog). A message to oneself is kept until it is received. Errors end the
// group as those of other calls do. Options.Timeout counts from the beginning of the
// transfer and from each piece of it that moves.
func SendTag[T Element](ctx context.Context, g *Group, buf []T, to int, tag uint32) error {
	r := request(protocol.Send, element.None, buf, nil, nil, to)
	_, err := g.tags.do(ctx, &r, tag)
	return err
}

// SendTagAsync starts a SendTag.
func SendTagAsync[T Element](ctx context.Context, g *Group, buf []T, to int, tag uint32) *Work {
	r := request(protocol.Send, element.None, buf, nil, nil, to)
	return g.tags.start(ctx, &r, tag)
}

// RecvTag fills buf with what a rank, or with AnyRank any rank, sends to this one by
// SendTag with that tag, and returns the sender. Of messages that have come from several
// ranks receives from AnyRank take one of each rank in turn. See [SendTag].
func RecvTag[T Element](ctx context.Context, g *Group, buf []T, from int, tag uint32) (sender int, err error) {
	r := request(protocol.Recv, element.None, buf, nil, nil, from)
	return g.tags.do(ctx, &r, tag)
}

// RecvTagAsync starts a RecvTag. Receives of one lane take messages in the order in which
// they were started. [Work.From] returns the sender.
func RecvTagAsync[T Element](ctx context.Context, g *Group, buf []T, from int, tag uint32) *Work {
	r := request(protocol.Recv, element.None, buf, nil, nil, from)
	return g.tags.start(ctx, &r, tag)
}
