package protocol

import "fmt"

// Request is one rank's part in a call: the Call, which all ranks make alike, and the
// buffers and ranks that are this rank's own.
//
//	               Dst                 Src              Counts             Peer
//	AllReduce      the result          an operand
//	Reduce         the root's result   an operand                          the root
//	ReduceScatter  this rank's part    an operand       parts of Src
//	AllGather      all parts           one part         parts of Dst
//	Broadcast      the values                                              the root
//	Scatter        this rank's part    the root's       parts of Src       the root
//	Gather         the root's          one part         parts of Dst       the root
//	AllToAll       what is received    what is sent     parts of Src
//	Barrier
//	Send           what is sent                                            the receiver
//	Recv           what is received                                        the sender
//
// Where the table says "the root's", other ranks' buffers are not used.
type Request struct {
	Call     Call
	Dst, Src []byte

	// Counts holds the bytes of each rank's part; nil: all parts have one length.
	Counts []int

	// Recv holds the bytes of each rank's part of an AllToAll's Dst. It is nil if Counts
	// is.
	Recv []int

	// Peer is a rank by the numbers of this communicator. Call.Root may be one by the
	// numbers of the whole group.
	Peer int

	// Step is the part of Call that this communicator does, if Call is made in several
	// steps, each by a communicator of some of the ranks. NoKind: it does all of Call.
	Step Kind
}

// Kind returns what the communicator does: Step, or Call.Kind.
func (r *Request) Kind() Kind {
	if r.Step != NoKind {
		return r.Step
	}
	return r.Call.Kind
}

// parted returns the buffer that has a part for every rank, and the length of this rank's
// part of it. Only the root of a Scatter or Gather has such a buffer; for the others
// whole is nil and used is false.
func (r *Request) parted(rank int) (name string, whole []byte, part int, used bool) {
	switch r.Kind() {
	case ReduceScatter:
		return "src", r.Src, len(r.Dst), true
	case Scatter:
		return "src", r.Src, len(r.Dst), rank == r.Peer
	case AllGather:
		return "dst", r.Dst, len(r.Src), true
	}
	return "dst", r.Dst, len(r.Src), rank == r.Peer // Gather
}

// Check returns ErrBadCall if the lengths, counts and ranks of r do not fit each other on
// rank of n. It does not look at Op and DType, which kernel.CheckFold checks.
func (r *Request) Check(rank, n int) error {
	switch r.Kind() {
	case AllReduce:
		return r.checkLen("dst", r.Dst, len(r.Src))
	case Reduce:
		if err := checkRoot(r.Peer, n); err != nil || rank != r.Peer {
			return err
		}
		return r.checkLen("dst", r.Dst, len(r.Src))
	case ReduceScatter, AllGather:
		return r.checkParts(rank, n)
	case Scatter, Gather:
		if err := checkRoot(r.Peer, n); err != nil {
			return err
		}
		return r.checkParts(rank, n)
	case AllToAll:
		return r.checkExchange(rank, n)
	case Broadcast:
		return checkRoot(r.Peer, n)
	case Send, Recv:
		if r.Peer < 0 || r.Peer >= n || r.Peer == rank {
			return fmt.Errorf("%w: %v between rank %d of %d and rank %d, expected another rank",
				ErrBadCall, r.Kind(), rank, n, r.Peer)
		}
	case Barrier:
	default:
		return fmt.Errorf("%w: %v, expected a kind of call", ErrBadCall, r.Kind())
	}
	return nil
}

// checkParts checks a call that has parts for all ranks in one buffer.
func (r *Request) checkParts(rank, n int) error {
	name, whole, part, used := r.parted(rank)
	total, want := part*n, part
	if r.Counts != nil {
		unit := 1
		if r.Kind() == ReduceScatter {
			unit = max(1, r.Call.DType.Size())
		}
		var err error
		if total, err = checkCounts(r.Counts, n, unit); err != nil {
			return err
		}
		want = r.Counts[rank]
	}
	if part != want {
		return fmt.Errorf("%w: this rank's part has %s, expected %s", ErrBadCall, r.amount(part), r.amount(want))
	}
	if !used {
		return nil
	}
	return r.checkLen(name, whole, total)
}

// checkExchange checks an AllToAll.
func (r *Request) checkExchange(rank, n int) error {
	if r.Counts == nil {
		if r.Recv != nil {
			return fmt.Errorf("%w: counts of what is received, and none of what is sent", ErrBadCall)
		}
		if unit := max(1, r.Call.DType.Size()); len(r.Src)%(n*unit) != 0 {
			return fmt.Errorf("%w: src has %s, expected a multiple of %s for each of %d ranks",
				ErrBadCall, r.amount(len(r.Src)), r.amount(unit), n)
		}
		return r.checkLen("dst", r.Dst, len(r.Src))
	}
	out, err := checkCounts(r.Counts, n, 1)
	if err == nil {
		err = r.checkLen("src", r.Src, out)
	}
	var in int
	if err == nil {
		in, err = checkCounts(r.Recv, n, 1)
	}
	if err == nil {
		err = r.checkLen("dst", r.Dst, in)
	}
	if err == nil && r.Counts[rank] != r.Recv[rank] {
		err = fmt.Errorf("%w: rank %d sends itself %s and expects %s",
			ErrBadCall, rank, r.amount(r.Counts[rank]), r.amount(r.Recv[rank]))
	}
	return err
}

// Parts returns Counts and Recv. Where they are nil it fills even, which has an entry for
// each rank, and returns it twice. r has been checked.
func (r *Request) Parts(even []int) (counts, recv []int) {
	if r.Counts != nil {
		return r.Counts, r.Recv
	}
	part := 0
	switch r.Kind() {
	case ReduceScatter, Scatter:
		part = len(r.Dst)
	case AllGather, Gather:
		part = len(r.Src)
	case AllToAll:
		part = len(r.Src) / len(even)
	}
	for i := range even {
		even[i] = part
	}
	return even, even
}

// checkCounts adds up the lengths. The error is ErrBadCall when one is negative or not a
// multiple of unit, or when there are not want of them.
func checkCounts(counts []int, want, unit int) (total int, err error) {
	if len(counts) != want {
		return 0, fmt.Errorf("%w: %d counts, expected one for each of %d ranks",
			ErrBadCall, len(counts), want)
	}
	for i, n := range counts {
		if n < 0 || n%unit != 0 {
			return 0, fmt.Errorf("%w: rank %d's part has %d bytes, expected elements of %d",
				ErrBadCall, i, n, unit)
		}
		if total += n; total < 0 {
			return 0, fmt.Errorf("%w: the sum of the counts is more than an int", ErrBadCall)
		}
	}
	return total, nil
}

// checkLen checks the length of the buffer of that name.
func (r *Request) checkLen(name string, b []byte, want int) error {
	if len(b) != want {
		return fmt.Errorf("%w: %s has %s, expected %s", ErrBadCall, name, r.amount(len(b)), r.amount(want))
	}
	return nil
}

// amount returns n bytes in words, as elements too if they are whole: "12 bytes (3 of
// f32)".
func (r *Request) amount(n int) string {
	if size := r.Call.DType.Size(); size > 0 && n%size == 0 {
		return fmt.Sprintf("%d bytes (%d of %v)", n, n/size, r.Call.DType)
	}
	return fmt.Sprintf("%d bytes", n)
}

// checkRoot checks that root is one of n ranks.
func checkRoot(root, n int) error {
	if root < 0 || root >= n {
		return fmt.Errorf("%w: root %d of %d ranks, expected 0 to %d", ErrBadCall, root, n, n-1)
	}
	return nil
}
