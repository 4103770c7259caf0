package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/shm/testneeds"
)

// Gateway is an S3 server: the Versity S3 gateway as a process, over a folder.
type Gateway struct {
	Endpoint string
	Data     string // folder; a bucket is a folder in it
	bin      string
	admin    string
}

// The keys of the gateway's root user.
const (
	rootKey    = "rootkey"
	rootSecret = "rootsecret123"
)

// StartGateway starts versitygw, of $PATH or of bin in the module's root. Where there is
// none see [testneeds.S3]. getenv is os.Getenv.
func StartGateway(t testing.TB, getenv func(string) string) *Gateway {
	t.Helper()
	g := &Gateway{Data: t.TempDir(), bin: lookUp()}
	if g.bin == "" {
		testneeds.S3.Skipf(t, getenv, "there is no versitygw in bin or $PATH; make tools-s3 builds it")
	}
	iam := t.TempDir()
	for range 5 { // another process may take a port between looking and using it
		if g.start(t, iam) {
			return g
		}
	}
	t.Fatal("the S3 gateway does not start")
	return nil
}

// lookUp finds versitygw in $PATH or in bin of the module's root.
func lookUp() string {
	if p, err := exec.LookPath("versitygw"); err == nil {
		return p
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if p := filepath.Join(dir, "bin", "versitygw"); exec.Command(p, "--version").Run() == nil {
			return p
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

func freePort(t testing.TB) string {
	t.Helper()
	port, err := tcp.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func (g *Gateway) start(t testing.TB, iam string) bool {
	g.Endpoint, g.admin = freePort(t), freePort(t)
	cmd := exec.Command(g.bin, "--port", g.Endpoint, "--admin-port", g.admin, "--quiet", "--iam-dir", iam, "posix", g.Data)
	cmd.Env = append(cmd.Environ(), "ROOT_ACCESS_KEY="+rootKey, "ROOT_SECRET_KEY="+rootSecret)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	stop := func() { cmd.Process.Kill(); <-ended }
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		c, err := net.Dial("tcp", g.Endpoint)
		if err == nil {
			c.Close()
			t.Cleanup(stop)
			return true
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Logf("the S3 gateway ended: %s", strings.TrimSpace(out.String()))
			return false
		case <-ctx.Done():
			stop()
			return false
		}
	}
}

// Bucket makes a bucket and returns its store with the rights of root.
func (g *Gateway) Bucket(t testing.TB, name string) *store.S3 {
	t.Helper()
	if err := os.Mkdir(filepath.Join(g.Data, name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	return g.Store(t, name, rootKey, rootSecret)
}

// Store returns the store of a bucket with the keys of a user.
func (g *Gateway) Store(t testing.TB, bucket, key, secret string) *store.S3 {
	t.Helper()
	s, err := store.NewS3(bucket, "", &store.S3Options{Endpoint: g.Endpoint, AccessKey: key, SecretKey: secret, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// User makes a user that may do nothing yet.
func (g *Gateway) User(t testing.TB, key, secret string) {
	t.Helper()
	out, err := exec.Command(g.bin, "admin", "--access", rootKey, "--secret", rootSecret, "--endpoint-url", "http://"+g.admin,
		"create-user", "--access", key, "--secret", secret, "--role", "user").CombinedOutput()
	if err != nil {
		t.Fatalf("creating user %s: %v: %s", key, err, out)
	}
}

// Keys are the keys of root.
func (g *Gateway) Keys() (key, secret string) { return rootKey, rootSecret }

// Policy lets a user read a bucket.
func (g *Gateway) Policy(bucket, key string) string {
	return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":[%q]},`+
		`"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::%s/*"]}]}`, key, bucket)
}
