package route

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/ringside-go/ringside/ipc/local"
)

// maxCard bounds what a rank says in one exchange.
const maxCard = 4 << 10

// card is what a rank says of itself to all others.
type card struct {
	Label string   `json:",omitempty"` // MeshOptions.Name
	Name  string   // what its host calls itself, for people
	Host  string   // MeshOptions.Host
	PID   int      // in its own namespace
	Nonce string   // that whoever dials it repeats
	Here  string   `json:",omitempty"` // address over shared memory, advertised
	Far   []string // addresses over TCP, the likeliest first
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil || len(name) > 100 {
		return "host"
	}
	return name
}

// swapCards tells the others where this rank is, and learns where they are.
func (m *mesh) swapCards(ctx context.Context) (err error) {
	mine := card{Label: strings.ToValidUTF8(m.Name, "?"), Name: hostName(), Host: m.Host, PID: os.Getpid(), Nonce: m.nonce}
	if mine.Host != "" {
		mine.Name = mine.Host
	}
	if mine.Far, err = offers(m.far.Addr()); err != nil {
		return err
	}
	if m.here != nil {
		if mine.Here, err = local.Advertise(m.here.Addr()); err != nil {
			return err
		}
	}
	m.cards = make([]card, m.Size)
	return m.swap(ctx, &mine, func(r int, src []byte) error {
		c := &m.cards[r]
		if err := json.Unmarshal(src, c); err != nil {
			return err
		}
		if len(c.Far) == 0 || len(c.Far) > maxAddrs || c.Nonce == "" || strings.ContainsAny(c.Nonce, " ") {
			return fmt.Errorf("a card with %d addresses and nonce %q", len(c.Far), c.Nonce)
		}
		if len(c.Label) > maxName {
			return fmt.Errorf("a name of %d bytes, expected at most %d", len(c.Label), maxName)
		}
		return nil
	})
}

// agree tells the others which lower ranks this one has reached over shared memory, and returns for every rank the
// lowest one of its host. All ranks reckon with the same numbers and come to the same hosts: a rank joins the first
// host of which it has reached, or was reached by, every rank.
func (m *mesh) agree(ctx context.Context) (hosts []int, err error) {
	var mine []int
	for r := range m.Rank {
		if m.near[r] != nil {
			mine = append(mine, r)
		}
	}
	reached := make([][]int, m.Size)
	if err := m.swap(ctx, ranges(mine), func(r int, src []byte) error {
		var spans [][2]int
		if err := json.Unmarshal(src, &spans); err != nil {
			return err
		}
		for _, s := range spans {
			if s[0] < 0 || s[0] >= s[1] || s[1] > r {
				return fmt.Errorf("reached the ranks from %d to before %d, expected lower ones", s[0], s[1])
			}
			for to := s[0]; to < s[1] && len(reached[r]) < m.Size; to++ {
				reached[r] = append(reached[r], to)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return group(reached), nil
}

// group gives every rank the lowest rank of its host; reached[r] are the lower ranks that r shares memory with.
func group(reached [][]int) []int {
	hosts := make([]int, len(reached))
	members := map[int]int{} // by lowest rank: how many so far
	for r := range reached {
		shared := map[int]int{} // of those, with how many r shares memory
		for _, to := range reached[r] {
			shared[hosts[to]]++
		}
		hosts[r] = r
		for host, n := range shared {
			if n == members[host] && host < hosts[r] {
				hosts[r] = host
			}
		}
		members[hosts[r]]++
	}
	return hosts
}

// ranges writes ascending numbers as spans from the first to before the last: those of a host are few.
func ranges(numbers []int) [][2]int {
	spans := [][2]int{}
	for _, n := range numbers {
		if last := len(spans) - 1; last >= 0 && spans[last][1] == n {
			spans[last][1]++
			continue
		}
		spans = append(spans, [2]int{n, n + 1})
	}
	return spans
}

// swap exchanges a value as JSON and calls take for that of every rank.
func (m *mesh) swap(ctx context.Context, mine any, take func(r int, src []byte) error) error {
	src, err := json.Marshal(mine)
	if err != nil {
		return fmt.Errorf("route: %w", err)
	}
	if len(src) > maxCard {
		return fmt.Errorf("route: this rank has %d bytes to say, at most %d", len(src), maxCard)
	}
	all, err := m.Exchange(ctx, src)
	if err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if len(all) != m.Size {
		return fmt.Errorf("exchange: values of %d ranks, expected %d", len(all), m.Size)
	}
	for r, src := range all {
		if len(src) > maxCard {
			return &RankError{Rank: r, Err: fmt.Errorf("said %d bytes, at most %d", len(src), maxCard)}
		}
		if err := take(r, src); err != nil {
			return &RankError{Rank: r, Err: fmt.Errorf("said %.200q: %w", src, err)}
		}
	}
	return nil
}
