package device

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// Connector is implemented by a Device that can run collectives on values where they lie,
// together with devices of other processes of the host.
type Connector interface {
	// Connect prepares collectives with the other members of a group, all of which call
	// it. rank is this one's, of size. Either all of them have Peers then, or none has
	// and all are told the same reason. The error is that of meet.
	Connect(rank, size int, meet Meet) (Peers, Obstacle, error)
}

// Meet gives each member of a group the bytes of all, in the order of their ranks. All
// members call it, with the same number of bytes. After an error the group is over. The
// slices are valid until the next Meet.
type Meet func(mine []byte) (all [][]byte, err error)

// Peers are the members of a group whose devices reach each other's values. One goroutine
// at a time uses them, which also uses the spaces that it names.
type Peers interface {
	// Start begins collectives on values of s. All members call it alike: only In,
	// InPlace and Failed may differ. It may return before the values are there. beside
	// says that other programs of s run before the first Finish, which the collectives
	// should not hold up.
	//
	// An error of meet is returned as it is, and no other member of the group gets a
	// result. Any other error is of this member alone: the others are given zeros for
	// their results, and have to hear of it by other means. There is a Pending for each
	// collective, none with an error.
	Start(s Space, xs []Collective, beside bool, meet Meet) ([]Pending, error)

	// Close gives back what the members have of each other. No collective is pending. It
	// meets the others, unless they are gone, so that memory is given back after all
	// have closed it.
	Close(meet Meet) error
}

// Linker is implemented by a Device that can send values to a device of another process
// of the host.
type Linker interface {
	// Link prepares transfers from the member of rank 0 to that of rank 1, both of which
	// call it. It returns what Connector.Connect does.
	Link(rank int, meet Meet) (Link, Obstacle, error)
}

// Link is a way by which one member sends values to another.
type Link interface {
	// Start begins a transfer of a value of s: a Send or a Recv. It does not wait for the
	// other member. Both start the same transfers in the same order, each on the
	// goroutine that uses the space.
	//
	// There is a Transfer with an error, too, and for a member that has Failed: its Run
	// tells the other member, which has zeros then and has to hear of it by other means.
	Start(s Space, x *Collective) (Transfer, error)

	// Close gives back what the members have of each other. All transfers have ended.
	// It meets the other member as Peers.Close does.
	Close(meet Meet) error
}

// Transfer is a send or receive that was begun.
type Transfer interface {
	// Run meets the other member and gives the transfer to the device. It is called once,
	// on any goroutine, after the Run of the link's transfer before has returned. It
	// returns an error of meet as it is. Any other error is of this member alone.
	Run(meet Meet) error

	// After Run, one of Pending's methods is called, on the goroutine that uses the
	// space: Drop after a Send or an error.
	Pending
}

// Pending is a collective that was begun. One of its methods is called, once.
type Pending interface {
	// Finish makes the result as value id of the space. It does not wait for it.
	// tensor.ErrUnknown is returned if the id exists.
	Finish(id uint64) error

	// Drop gives the result up.
	Drop()
}

// Collective is a collective on one value of each member, or a transfer of one value: its
// Kind is Send or Recv then, and InPlace is not set.
type Collective struct {
	Kind  protocol.Kind     // AllReduce, ReduceScatter, AllGather or AllToAll
	Op    element.Reduction // of those that fold: Sum, Prod, Max or Min
	Scale float64           // what a fold multiplies its result by before it rounds

	DType tensor.DType // bools are folded as bytes
	Shape tensor.Shape // of the result, for a Send of the value

	// Send holds the elements by rank of the value that is given, for ReduceScatter and
	// AllToAll; Recv those of the result, for AllGather and AllToAll.
	Send, Recv []int

	In      uint64 // the value
	InPlace bool   // Start frees the value; an AllReduce may put its result there
	Failed  bool   // this member has no value, because of a failure
}

// Obstacle says why the members of a group have no Peers. Its numbers travel between
// processes: append, never reorder.
type Obstacle uint8

// The obstacles. A group has the one with the highest number of those of its members.
const (
	None         Obstacle = iota
	Refused               // the driver refuses memory or events of another process
	Unreached             // a GPU does not reach the memory of another
	Namespaces            // processes of different PID namespaces
	OneProcess            // two members are one process
	TooMany               // more members than a fold takes
	NotConnector          // a member's device is not a Connector
	Hosts                 // members on different hosts
	Stages                // members of different stages that send each other nothing
	obstacles
)

var obstacleTexts = [obstacles]string{
	None:         "",
	Refused:      "the driver refuses memory or events of another process",
	Unreached:    "a GPU does not reach the memory of another",
	Namespaces:   "the workers are in different PID namespaces, where the driver opens no handles",
	OneProcess:   "the workers are of one process, in which the driver opens no handles of its own",
	TooMany:      "there are more workers than a fold takes",
	NotConnector: "a worker's device has no collectives of its own",
	Hosts:        "the workers are on different hosts",
	Stages:       "the workers are of different stages, and neither sends values to the other",
}

// Valid reports whether o is one of the constants.
func (o Obstacle) Valid() bool { return o < obstacles }

// String returns the obstacle as the rest of a sentence after "because"; empty for None.
func (o Obstacle) String() string {
	if !o.Valid() {
		return fmt.Sprintf("obstacle %d", uint8(o))
	}
	return obstacleTexts[o]
}
