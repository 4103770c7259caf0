package kubernetes

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// guard is when a command counts as hanging.
const guard = time.Minute

// apiServer answers kubectl as the API server of a cluster with JobSet does, as far as
// the commands of launch.md ask, and keeps what is created. It refuses unknown fields.
type apiServer struct {
	mu     sync.Mutex // kubectl asks several things at once
	secret *core.Secret
	set    *jobset.JobSet
	asked  []string // requests that it does not know
}

const (
	setVersion = "jobset.x-k8s.io/v1alpha2"
	secretsAt  = "/api/v1/namespaces/default/secrets"
	setsAt     = "/apis/" + setVersion + "/namespaces/default/jobsets"
)

// discovery is what the server tells of itself. By the last document kubectl learns that
// the server checks fields by itself.
var discovery = map[string]any{
	"/version": map[string]string{"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
	"/api":     meta.APIVersions{TypeMeta: meta.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
	"/apis": meta.APIGroupList{TypeMeta: meta.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []meta.APIGroup{{
		Name:             "jobset.x-k8s.io",
		Versions:         []meta.GroupVersionForDiscovery{{GroupVersion: setVersion, Version: "v1alpha2"}},
		PreferredVersion: meta.GroupVersionForDiscovery{GroupVersion: setVersion, Version: "v1alpha2"},
	}}},
	"/api/v1":             resources("v1", meta.APIResource{Name: "secrets", Kind: "Secret"}),
	"/apis/" + setVersion: resources(setVersion, meta.APIResource{Name: "jobsets", Kind: "JobSet"}),
	"/openapi/v3":         map[string]any{"paths": map[string]any{"apis/" + setVersion: map[string]string{"serverRelativeURL": "/openapi/v3/jobset"}}},
	"/openapi/v3/jobset": map[string]any{"openapi": "3.0.0", "paths": map[string]any{setsAt: map[string]any{"patch": map[string]any{
		"x-kubernetes-group-version-kind": map[string]string{"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"},
		"parameters":                      []any{map[string]string{"name": "fieldValidation", "in": "query"}},
	}}}},
}

func resources(version string, r meta.APIResource) meta.APIResourceList {
	r.Namespaced, r.Verbs = true, meta.Verbs{"create", "get", "patch"}
	return meta.APIResourceList{TypeMeta: meta.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version, APIResources: []meta.APIResource{r}}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, known := discovery[r.URL.Path]
	status := http.StatusOK
	switch at := r.Method + " " + r.URL.Path; {
	case err != nil:
	case known:
	case at == "GET /openapi/v2":
		// older kubectls: an empty document, which knows no kind
		w.Header().Set("Content-Type", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
		return
	case at == "POST "+secretsAt:
		s.secret = &core.Secret{}
		err = decode(body, s.secret)
		answer, status = s.secret, http.StatusCreated
	case at == "POST "+setsAt:
		s.set = &jobset.JobSet{}
		err = yaml.UnmarshalStrict(body, s.set)
		answer, status = s.set, http.StatusCreated
	case strings.HasPrefix(at, "GET "+setsAt+"/"):
		answer, status = meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: meta.StatusFailure, Reason: meta.StatusReasonNotFound, Code: http.StatusNotFound}, http.StatusNotFound
	default:
		err = errors.New("no such path")
		s.asked = append(s.asked, at)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // kubectl says what it did not get
}

// decode reads a secret as kubectl sends it: in Kubernetes' envelope of protocol buffers,
// or older kubectls as JSON.
func decode(body []byte, secret *core.Secret) error {
	raw, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		return yaml.UnmarshalStrict(body, secret)
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(raw); err != nil {
		return fmt.Errorf("the envelope: %w", err)
	}
	return secret.Unmarshal(envelope.Raw)
}

// commands returns the commands of launch.md that call kubectl.
func commands(t *testing.T) (lines []string) {
	t.Helper()
	for line := range strings.Lines(docs(t, "launch.md")) {
		if strings.HasPrefix(line, "    kubectl ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestKubectl runs the commands of launch.md that call kubectl, as they are written,
// against the test's API server. The secret is the one that the manifests refer to.
func TestKubectl(t *testing.T) {
	for _, name := range []string{"kubectl", "openssl"} {
		testneeds.Kubectl.Program(t, os.Getenv, name)
	}
	lines := commands(t)
	if len(lines) != 2 {
		t.Fatalf("%d commands in launch.md, expected 2: %q", len(lines), lines)
	}
	s := &apiServer{}
	server := httptest.NewServer(s)
	defer server.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}\n", server.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		ctx, cancel := context.WithTimeout(t.Context(), guard)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		cmd.WaitDelay = time.Second // kubectl may outlive the shell, and holds its output
		cmd.Dir = filepath.Join("..", "..", "..")
		cmd.Env = append(os.Environ(), "HOME="+dir, "KUBECONFIG="+config)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), " created\n") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	server.Close() // its goroutines are done with s
	if len(s.asked) > 0 || s.secret == nil || s.set == nil {
		t.Fatalf("the server has the secret %v and the jobs %v, and was asked %q", s.secret, s.set, s.asked)
	}
	ref := s.set.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Env
	checkSecret(t, "jobset.yaml", s.secret, ref)
	var job batch.Job
	_, second, _ := strings.Cut(docs(t, "launch.md"), "\n---\n")
	second, _, _ = strings.Cut(second, "```")
	read(t, second, &job)
	checkSecret(t, "launch.md", s.secret, job.Spec.Template.Spec.Containers[0].Env)
}

// checkSecret checks that a variable refers to a key of the secret with 32 random bytes.
func checkSecret(t *testing.T, page string, secret *core.Secret, env []core.EnvVar) {
	t.Helper()
	for _, e := range env {
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			continue
		}
		ref := e.ValueFrom.SecretKeyRef
		value := secret.Data[ref.Key]
		if b, err := hex.DecodeString(string(value)); ref.Name != secret.Name || len(b) != 32 || err != nil {
			t.Errorf("%s: %s is %q of the secret %s; kubectl made the secret %s with %d bytes, %v", page, e.Name, ref.Key, ref.Name, secret.Name, len(value), err)
		}
		return
	}
	t.Errorf("%s: no variable refers to a secret", page)
}
