package command

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/shm/plain"
)

// credentials are an S3 access key and its secret key. Nothing prints them.
type credentials struct{ access, secret string }

// readPrivate returns the text of a file that only its owner may read. Errors name the
// flag and the file and quote nothing of the text.
func readPrivate(flag, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, plain.Path(err))
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("--%s %s: mode %#o, want 0600 (chmod 600 %s)", flag, plain.Name(path), info.Mode().Perm(), plain.Name(path))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, plain.Path(err))
	}
	return string(b), nil
}

// readCredentials reads the file of --s3-keys-file.
func readCredentials(path string) (credentials, error) {
	text, err := readPrivate("s3-keys-file", path)
	if err != nil {
		return credentials{}, err
	}
	words := strings.Fields(text)
	if len(words) != 2 {
		return credentials{}, fmt.Errorf("--s3-keys-file %s: %d words, expected an access key and a secret key", plain.Name(path), len(words))
	}
	return credentials{words[0], words[1]}, nil
}

// readPeerCredentials reads the file of --s3-peer-keys-file.
func readPeerCredentials(path string) (map[uint64]credentials, error) {
	const flag = "s3-peer-keys-file"
	text, err := readPrivate(flag, path)
	if err != nil {
		return nil, err
	}
	return byPeer(flag, path, text, "an access key and a secret key", func(words []string) (c credentials, ok bool) {
		if len(words) != 2 {
			return c, false
		}
		return credentials{words[0], words[1]}, true
	})
}

// readPublicKeys reads the file of --peer-keys-file; nil where no file is named.
func readPublicKeys(path string) (map[uint64]ed25519.PublicKey, error) {
	if path == "" {
		return nil, nil
	}
	const flag = "peer-keys-file"
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return byPeer(flag, path, string(b), "an ed25519 public key of 64 hexadecimal digits", func(words []string) (ed25519.PublicKey, bool) {
		if len(words) != 1 {
			return nil, false
		}
		key, err := hex.DecodeString(words[0])
		return key, err == nil && len(key) == ed25519.PublicKeySize
	})
}

// byPeer reads lines of a peer's number and what parse takes. Empty lines and lines that
// begin with # are left out. An error quotes nothing but the number of the line.
func byPeer[T any](flag, path, text, want string, parse func(words []string) (T, bool)) (map[uint64]T, error) {
	out := map[uint64]T{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		uid, err := strconv.ParseUint(words[0], 10, 64)
		v, ok := parse(words[1:])
		if err != nil || !ok {
			return nil, fmt.Errorf("--%s %s:%d: expected a peer's number and %s", flag, plain.Name(path), n, want)
		}
		if _, twice := out[uid]; twice {
			return nil, fmt.Errorf("--%s %s:%d: peer %d is named twice", flag, plain.Name(path), n, uid)
		}
		out[uid] = v
	}
	return out, nil
}

// readSeed reads an ed25519 key; nil where no file is named.
func readSeed(path string) (ed25519.PrivateKey, error) {
	if path == "" {
		return nil, nil
	}
	text, err := readPrivate("sign-key-file", path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; to make it: (umask 077; openssl rand -hex 32 > %s)", err, plain.Name(path))
	}
	if err != nil {
		return nil, err
	}
	seed, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("--sign-key-file %s: expected %d hexadecimal digits", plain.Name(path), 2*ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
