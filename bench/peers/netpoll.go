package main

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/cloudwego/netpoll"
)

// echoNetpoll listens at a port of the system's choice, on the loopback interface, and
// writes its address to a file.
func echoNetpoll(file string, ready func()) error {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l, err := netpoll.ConvertListener(tcp)
	if err != nil {
		return err
	}
	loop, err := netpoll.NewEventLoop(func(_ context.Context, c netpoll.Connection) error {
		for c.Reader().Len() >= messageBytes {
			m, err := c.Reader().Next(messageBytes)
			if err != nil {
				return err
			}
			if _, err := c.Writer().WriteBinary(append([]byte(nil), m...)); err != nil {
				return err
			}
			if err := c.Reader().Release(); err != nil {
				return err
			}
			if err := c.Writer().Flush(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(tcp.Addr().String()), 0o600); err != nil {
		return err
	}
	ready()
	return loop.Serve(l)
}

func dialNetpoll(addr string) (func() error, error) {
	c, err := netpoll.DialConnection("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	m := make([]byte, messageBytes)
	return func() error {
		if _, err := c.Writer().WriteBinary(m); err != nil {
			return err
		}
		if err := c.Writer().Flush(); err != nil {
			return err
		}
		if _, err := c.Reader().Next(messageBytes); err != nil {
			return err
		}
		return c.Reader().Release()
	}, nil
}
