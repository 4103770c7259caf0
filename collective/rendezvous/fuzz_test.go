package rendezvous

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"
)

// FuzzFrame: any bytes are a frame that comes out as it went in, or an error; memory is given only to what came.
func FuzzFrame(f *testing.F) {
	for _, s := range []*seal{nil, {key: []byte("k")}} {
		var b bytes.Buffer
		_ = writeFrame(&b, frame{kindSet, 7, request{key: "a", value: []byte("b")}.append(nil, kindSet)}, s)
		f.Add(b.Bytes(), s != nil)
	}
	f.Add([]byte("\xff\xff\xff\x03\x01"), false)
	f.Add([]byte("GET / HTTP/1.1\r\n"), true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		in, out := (*seal)(nil), (*seal)(nil)
		if sealed {
			in, out = &seal{key: []byte("k")}, &seal{key: []byte("k")}
		}
		r := bytes.NewReader(b)
		got, err := readFrame(r, maxReply, in)
		if err != nil {
			if !errors.Is(err, ErrProtocol) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		if len(got.body) > len(b) {
			t.Fatalf("%d bytes made a body of %d", len(b), len(got.body))
		}
		var again bytes.Buffer
		if err := writeFrame(&again, got, out); err != nil {
			t.Fatal(err)
		}
		if read := b[:len(b)-r.Len()]; !bytes.Equal(again.Bytes(), read) {
			t.Fatalf("%q became %q", read, again.Bytes())
		}
	})
}

// FuzzBodies: requests, failures and values are parsed without a panic, and come out as they went in.
func FuzzBodies(f *testing.F) {
	for k := kindSet; k <= kindGather; k++ {
		f.Add(byte(k), request{key: "key", value: []byte("value"), delta: 3, timeout: time.Second, rank: 1, size: 4}.append(nil, k))
	}
	f.Add(byte(kindError), failure{codeMissing, "text", []int{1, 2}}.append(nil))
	f.Fuzz(func(t *testing.T, k byte, b []byte) {
		if q, err := parseRequest(kind(k), b); err == nil {
			if got := q.append(nil, kind(k)); !bytes.Equal(got, b) {
				t.Errorf("kind %d: %q became %q", k, b, got)
			}
		}
		if e, err := parseFailure(b); err == nil {
			if got := e.append(nil); !bytes.Equal(got, b) {
				t.Errorf("a failure: %q became %q", b, got)
			}
		}
		if vs, err := parseValues(b, int(k)); err == nil {
			var got []byte
			for _, v := range vs {
				got = appendBytes(got, v)
			}
			if !bytes.Equal(got, b) {
				t.Errorf("values: %q became %q", b, got)
			}
		}
	})
}

// FuzzServer: a member of the world that sends anything after its handshake ends at most its own connection.
func FuzzServer(f *testing.F) {
	var all []byte
	for k := kindSet; k <= kindGather; k++ {
		q := request{key: "world/1", value: []byte("v"), rank: 1, size: 2}
		all = append(all, byte(k), byte(len(q.append(nil, k))))
		all = append(all, q.append(nil, k)...)
	}
	f.Add(all)
	f.Add([]byte{byte(kindWelcome), 0, byte(kindBye), 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		w := World{Size: 2}
		s := newServer(w, nil, slog.New(slog.DiscardHandler))
		dial := func(rank int) *link {
			ours, theirs := net.Pipe()
			s.wg.Go(func() { s.serve(theirs) })
			mine := w
			mine.Rank = rank
			l, _, err := greet(ours, mine)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		hostile, honest := dial(1), dial(0)
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, hostile)
		}()
		// The script is frames: a kind, a length, so many bytes of body.
		for len(script) >= 2 {
			n := min(int(script[1]), len(script)-2)
			if writeFrame(hostile, frame{kind(script[0]), 1, script[2 : 2+n]}, hostile.out) != nil {
				break
			}
			script = script[2+n:]
		}
		hostile.Close()
		<-read
		honest.SetDeadline(time.Now().Add(guard))
		if err := writeFrame(honest, frame{kindGet, 9, request{key: "nobody's"}.append(nil, kindGet)}, honest.out); err != nil {
			t.Fatal(err)
		}
		if r, err := readFrame(honest, maxReply, honest.in); err != nil || r.id != 9 {
			t.Fatalf("the other rank got %+v, %v", r, err)
		}
		honest.Close()
		s.close(time.Minute)
		if s.bytes < 0 || len(s.peers) != 0 {
			t.Errorf("left: %d bytes, peers %v", s.bytes, s.peers)
		}
	})
}

// FuzzGreeting: whatever comes instead of a greeting, from either side, is an error.
func FuzzGreeting(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	var b bytes.Buffer
	_ = writeFrame(&b, frame{kind: kindHello, body: append(append([]byte(magic), version), make([]byte, nonceBytes)...)}, nil)
	_ = writeFrame(&b, frame{kind: kindJoin, body: make([]byte, 16+macBytes)}, nil)
	f.Add(b.Bytes())
	b.Reset()
	_ = writeFrame(&b, frame{kind: kindChallenge, body: append(append([]byte(magic), version), make([]byte, 2*nonceBytes+proofBytes)...)}, nil)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		against := func(what string, f func(c net.Conn) error) {
			ours, theirs := net.Pipe()
			go func() {
				go io.Copy(io.Discard, theirs)
				_, _ = theirs.Write(b)
				theirs.Close()
			}()
			if err := f(ours); err == nil {
				t.Errorf("%q is a greeting to the %s", b, what)
			}
			ours.Close()
		}
		against("rank", func(c net.Conn) error { _, _, err := greet(c, World{Size: 2, Rank: 1}); return err })
		against("store", func(c net.Conn) error { _, _, err := receive(c, nil, make([]byte, nonceBytes)); return err })
	})
}
