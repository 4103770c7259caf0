package host

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/plan"
)

// # Broadcasts
//
// A broadcast is no meeting. The root puts a notice on its board, with the bytes or where they are, and is done; the others look for it
// when they come to that call, and wait for nobody but the root. Up to Comm.spread bytes the root copies what it gives, into the notice
// or into the board's room, and waits for nobody. More than that, registered, is read where it lies: each of the others says so when it has
// done it, in one word of its own page, and the root waits for those words. What is neither goes on from the notice through staging
// slots, as in move.go.
//
// # When a place is free again
//
// Who comes to a meeting has taken every notice that came before it in the order of calls. So the root, after a meeting, may use
// all places of its board and all of its room again, without asking anybody. Between two meetings there are at most notices
// broadcasts, of all roots together, and no more bytes than the room has: the broadcast that would be one too many begins with a
// meeting. All ranks count the same calls, so all know when that is (window), and where in the root's room the bytes are.
//
// # Who is in another call
//
// Calls have places: the number of meetings before it, and the how-manieth broadcast since it is. Two ranks at one place in different
// calls is what must not be. A meeting shows it by its marks; but a rank that is in a broadcast shows no mark, and may be far ahead
// of who did not expect one. So a notice has the place and the word of its call, and who waits for a notice says where it waits, once it has
// waited for some time (posted). Who waits, for whatever, compares those of all ranks with its own place (elsewhere). Ranks that wait for
// ever because they are in different calls always include one that sees it: of those that wait at the lowest place, take one that waits
// for a rank p. p waits too (or has ended, or is late: that is seen otherwise), at that place or a later one. It has not done what it is
// waited for, so it was in another call at that place, and says so by its mark, its notice or what it posted.
//
// One case is left: two ranks that both gave, each as the root of that place, have waited for nobody, and may all have gone on to one
// meeting. There the notices that nobody took are still on the boards (taken).
//
// A root that is done before the others have come does not learn in that call that one of them is in another, or dead: its next
// call that waits does.
//
//	  0  acknowledged u64: the place of the last call whose bytes the owner has read from a root's memory
//	128  posted: place u64, word u64, call
//	256  notices x notice
//	     room
//
// A notice is in the place of its number, counted from 1 for each root; it is there when it has that number:
//
//	 0  number u64
//	 8  place u64 of the call, see placeOf
//	16  word u64 of the call
//	24  seq u64 of the call
//	32  text: up to noticeText bytes, or, of more than Comm.spread bytes, where they are registered u64, 0: nowhere
//	64  the rest of the call
const (
	notices    = 16 // at most 1<<placeShift - 2
	noticeSize = 128
	noticeText = 32

	offNoticePlace = 8
	offNoticeWord  = 16
	offNoticeSeq   = 24
	offNoticeText  = 32
	offNoticeCall  = 64

	offPosted  = apart
	offNotices = 2 * apart
	offRoom    = offNotices + notices*noticeSize

	placeShift = 8
)

// defaultSpread is the most bytes that the root of a broadcast copies in order not to wait. Of two ranks, the other one then begins
// when the copy is made; more ranks wait for each other where they would meet, the longer if they share cores.
func defaultSpread(ranks, flat, chunk int) int {
	if ranks <= 2 {
		return flat
	}
	return max(flat, chunk/2)
}

// roomBytes is the size of a board's room.
func roomBytes(spread int) int { return max(4*spread, 32<<10) }

// notice is the place of the number-th notice of the page's owner.
func (p *page) notice(number uint64) []byte {
	return stretch(p.mem, p.shape.board+offNotices+int(number%notices)*noticeSize, noticeSize)
}

// acknowledged is the word by which the page's owner tells roots what it has read.
func (p *page) acknowledged() *uint64 { return word64(p.mem, p.shape.board) }

// inRoom is n bytes of the board's room.
func (p *page) inRoom(at, n int) []byte { return stretch(p.mem, p.shape.board+offRoom+at, n) }

// window is what all ranks know of the broadcasts since the last meeting.
type window struct {
	epoch uint64 // of that meeting
	count uint64 // broadcasts since
	used  int    // bytes of the room
	root  int    // of the last one
}

// placeOf is the place of a call: the meetings before it, and the broadcasts since the last of those, itself included.
func placeOf(epoch, count uint64) uint64 { return epoch<<placeShift | count }

// next has n bytes of the room for one broadcast more, and returns where they begin.
func (c *Comm) nextNotice(n, root int) (int, error) {
	w := &c.window
	if n <= noticeText || n > c.spread {
		n = 0
	}
	if w.epoch == c.epoch && (w.count == notices || w.used+n > roomBytes(c.spread)) {
		if err := c.meet(); err != nil {
			return 0, err
		}
	}
	if w.epoch != c.epoch {
		*w = window{epoch: c.epoch}
	}
	at := w.used
	w.used += (n + 63) &^ 63
	w.count++
	w.root = root
	return at, nil
}

// broadcast stores the root's buf in everybody's.
func (c *Comm) broadcast(buf []byte, root int) error {
	if root == c.rank {
		return c.give(buf)
	}
	return c.receive(buf, root)
}

// give is a broadcast of this rank's.
func (c *Comm) give(buf []byte) error {
	n := len(buf)
	at, err := c.nextNotice(n, c.rank)
	if err != nil {
		return err
	}
	c.peers[c.rank].noticed++
	number, place := c.peers[c.rank].noticed, placeOf(c.epoch, c.window.count)
	notice := c.own.notice(number)
	le := binary.LittleEndian
	le.PutUint64(notice[offNoticePlace:], place)
	le.PutUint64(notice[offNoticeWord:], c.word)
	le.PutUint64(notice[offNoticeSeq:], c.call.Seq)
	call := *c.call
	if call.Seq = 0; c.noted[number%notices] != call { // else it stands there
		var text [plan.CallBytes]byte
		call.Encode(&text)
		copy(notice[offNoticeCall:], text[8:])
		c.noted[number%notices] = call
	}
	var registered uint64
	switch {
	case n <= noticeText:
		copy(notice[offNoticeText:], buf)
	case n <= c.spread:
		c.fold.set.Copy(c.own.inRoom(at, n), buf)
	default:
		registered = c.place(buf)
		le.PutUint64(notice[offNoticeText:], registered)
	}
	storeRelease(word64(notice, 0), number)
	for p := range c.peers {
		if p != c.rank {
			c.peers[p].bell.Ring()
		}
	}
	switch {
	case n > c.spread && registered == 0:
		return c.spreadStaged(buf, c.rank)
	case n > c.spread:
		c.stats.direct++
		c.stats.bytes += uint64(n)
		return c.awaitReaders(place)
	}
	c.stats.small++
	c.stats.bytes += uint64(n)
	return nil
}

// receive is a broadcast of another rank's.
func (c *Comm) receive(buf []byte, root int) error {
	n := len(buf)
	at, err := c.nextNotice(n, root)
	if err != nil {
		return err
	}
	p := &c.peers[root]
	number, place := p.noticed+1, placeOf(c.epoch, c.window.count)
	notice := p.notice(number)
	if word := word64(notice, 0); !await(word, number, c.spins) {
		if err := c.waitLetter(letterWait{word: word, want: number, peer: root, notice: true}); err != nil {
			return err
		}
	}
	le := binary.LittleEndian
	if le.Uint64(notice[offNoticePlace:]) != place || le.Uint64(notice[offNoticeWord:]) != c.word {
		return c.kill(c.noticeDiffers(root, notice))
	}
	p.noticed = number
	switch {
	case n <= noticeText:
		copy(buf, notice[offNoticeText:])
		return nil
	case n <= c.spread:
		c.fold.set.Copy(buf, p.inRoom(at, n))
		return nil
	}
	registered := le.Uint64(notice[offNoticeText:])
	if registered == 0 {
		return c.spreadStaged(buf, root)
	}
	from, err := c.at(root, registered, n)
	if err != nil {
		return err
	}
	if &from[0] != &buf[0] {
		c.fold.set.Copy(buf, from)
	}
	storeRelease(c.own.acknowledged(), place)
	p.bell.Ring()
	return nil
}

// spreadStaged is a broadcast through the root's staging slots.
func (c *Comm) spreadStaged(buf []byte, root int) error {
	r := &c.room
	r.reset()
	r.total[root] = len(buf)
	if root != c.rank {
		r.want[root], r.into[root] = plan.Slice{Len: len(buf)}, plan.Slice{Len: len(buf)}
	}
	return c.run(&move{src: buf, dst: buf})
}

// awaitReaders waits until everybody has read what this rank gave at that place.
func (c *Comm) awaitReaders(place uint64) error {
	c.readers = place
	for p := range c.peers {
		if p != c.rank && !await(c.peers[p].acknowledged(), place, c.spins) {
			err := c.waitFrom(p)
			c.readers = 0
			return err
		}
	}
	c.readers = 0
	return nil
}

// noticeDiffers is the error about root, whose notice is not what this rank came for.
func (c *Comm) noticeDiffers(root int, notice []byte) *plan.PeerError {
	var text [plan.CallBytes]byte
	copy(text[:8], notice[offNoticeSeq:])
	copy(text[8:], notice[offNoticeCall:])
	return c.mismatch(root, text[:], uint32(binary.LittleEndian.Uint64(notice[offNoticeWord:])>>32))
}

// position is where this rank is, while it waits, in the order of calls; meeting: at a meeting, whose epoch has begun.
func (c *Comm) position() (place uint64, meeting bool) {
	if c.letter.notice || c.readers != 0 {
		return placeOf(c.epoch, c.window.count), false
	}
	count := uint64(1)
	if c.window.epoch == c.epoch-1 {
		count += c.window.count
	}
	return placeOf(c.epoch-1, count), true
}

// tellPlace posts where this rank waits for a notice.
func (c *Comm) tellPlace() {
	if !c.letter.notice {
		return
	}
	place, _ := c.position()
	b := stretch(c.own.mem, c.own.shape.board+offPosted, 16+plan.CallBytes)
	at := word64(b, 0)
	if atomic.LoadUint64(at) == place {
		return
	}
	atomic.StoreUint64(at, 0) // nobody takes what follows for what belongs to another place
	atomic.StoreUint64(word64(b, 8), c.word)
	c.call.Encode((*[plan.CallBytes]byte)(b[16:]))
	atomic.StoreUint64(at, place)
}

// taken says whether this rank has taken all that the others had on their boards when they came to the meeting just over.
func (c *Comm) taken() error {
	for p := range c.peers {
		peer := &c.peers[p]
		notice := peer.notice(peer.noticed + 1)
		if p == c.rank || atomic.LoadUint64(word64(notice, 0)) != peer.noticed+1 {
			continue
		}
		if atomic.LoadUint64(word64(notice, offNoticePlace)) < placeOf(c.epoch, 0) { // else it came after the meeting
			return c.kill(c.noticeDiffers(p, notice))
		}
	}
	return nil
}

// elsewhere kills the comm if p, on its board or by its marks, shows that it is in another call than this rank, which waits at a meeting, for
// a notice or for its readers; and says so.
func (c *Comm) elsewhere(p int) bool {
	place, meeting := c.position()
	peer := &c.peers[p]
	awaited := meeting || c.readers != 0 || p == c.letter.peer // p must do something at this place
	differs := func(its uint64, word uint64) bool {
		switch {
		case its == place:
			return word != c.word
		case its > place: // what p did before that place came before it, so it is not missing if it did
			return awaited && c.missing(p)
		}
		return false
	}
	notice := peer.notice(peer.noticed + 1)
	if atomic.LoadUint64(word64(notice, 0)) == peer.noticed+1 && !(c.letter.notice && p == c.letter.peer) {
		its, word := atomic.LoadUint64(word64(notice, offNoticePlace)), atomic.LoadUint64(word64(notice, offNoticeWord))
		if its <= place || differs(its, word) { // not later: this rank has taken another call for that one
			c.kill(c.noticeDiffers(p, notice))
			return true
		}
	}
	posted := stretch(peer.mem, peer.shape.board+offPosted, 16+plan.CallBytes)
	its, word := atomic.LoadUint64(word64(posted, 0)), atomic.LoadUint64(word64(posted, 8))
	if its != 0 && differs(its, word) && atomic.LoadUint64(word64(posted, 0)) == its {
		c.kill(c.mismatch(p, posted[16:], uint32(word>>32)))
		return true
	}
	if l := &peer.lines[(c.epoch+1)&1]; !meeting && awaited {
		if mark := atomic.LoadUint64(l.mark); uint32(mark>>32) == uint32(c.epoch+1) && c.missing(p) {
			c.kill(c.mismatch(p, l.call, uint32(mark)))
			return true
		}
	}
	return false
}
