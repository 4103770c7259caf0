package main

import (
	"fmt"
	"io"
	"net"

	"github.com/cloudwego/shmipc-go"
)

// readMessage copies a message out, as a program that keeps it would.
func readMessage(s *shmipc.Stream, m []byte) error {
	b, err := s.BufferReader().ReadBytes(len(m))
	if err != nil {
		return err
	}
	copy(m, b)
	s.BufferReader().ReleasePreviousRead()
	return nil
}

func writeMessage(s *shmipc.Stream, m []byte) error {
	if _, err := s.BufferWriter().WriteBytes(m); err != nil {
		return err
	}
	return s.Flush(false)
}

func echoShmipc(addr string, ready func()) error {
	shmipc.SetLogLevel(5) // nothing
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: addr, Net: "unix"})
	if err != nil {
		return err
	}
	defer l.Close()
	ready()
	c, err := l.Accept()
	if err != nil {
		return err
	}
	session, err := shmipc.Server(c, shmipc.DefaultConfig())
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	defer session.Close()
	s, err := session.AcceptStream()
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	var m [messageBytes]byte
	for {
		if err := readMessage(s, m[:]); err != nil {
			if err == io.EOF || err == shmipc.ErrEndOfStream || err == shmipc.ErrStreamClosed {
				return nil
			}
			return err
		}
		if err := writeMessage(s, m[:]); err != nil {
			return err
		}
	}
}

func dialShmipc(addr string) (func() error, error) {
	shmipc.SetLogLevel(5)
	conf := shmipc.DefaultSessionManagerConfig()
	conf.Network, conf.Address = "unix", addr
	conf.MemMapType = shmipc.MemMapTypeMemFd
	conf.SessionNum = 1
	sessions, err := shmipc.NewSessionManager(conf)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	s, err := sessions.GetStream()
	if err != nil {
		return nil, fmt.Errorf("stream: %w", err)
	}
	var m [messageBytes]byte
	return func() error {
		if err := writeMessage(s, m[:]); err != nil {
			return err
		}
		return readMessage(s, m[:])
	}, nil
}
