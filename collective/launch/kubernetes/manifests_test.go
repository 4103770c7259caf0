package kubernetes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/ringside-go/ringside/collective/rendezvous"
)

// docs reads a file of the documentation.
func docs(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// read fills object, and refuses fields that its type doesn't have.
func read(t *testing.T, text string, object any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}

// TestManifests reads the service and the job of launch.md.
func TestManifests(t *testing.T) {
	_, text, _ := strings.Cut(docs(t, "launch.md"), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	first, second, ok := strings.Cut(text, "\n---\n")
	if !ok {
		t.Fatalf("expected a service and a job in launch.md: %s", text)
	}
	var service core.Service
	var job batch.Job
	read(t, first, &service)
	read(t, second, &job)
	if job.Spec.Template.Spec.Subdomain != service.Name || service.Name == "" {
		t.Errorf("the service %q does not name the pods of subdomain %q", service.Name, job.Spec.Template.Spec.Subdomain)
	}
}

// TestUnknownFields: a field that is misspelled is refused.
func TestUnknownFields(t *testing.T) {
	text := strings.Replace(docs(t, "jobset.yaml"), "maxRestarts", "maxRestart", 1)
	if err := yaml.UnmarshalStrict([]byte(text), &jobset.JobSet{}); err == nil || !strings.Contains(err.Error(), `unknown field "maxRestart"`) {
		t.Errorf("%v; expected the unknown field", err)
	}
}

// TestJobSet reads jobset.yaml and sets the variables that its pods get: Resolve finds as
// many ranks as the set has pods, and rank 0 at the name that JobSet gives pod 0.
func TestJobSet(t *testing.T) {
	var set jobset.JobSet
	read(t, docs(t, "jobset.yaml"), &set)
	if len(set.Spec.ReplicatedJobs) != 1 || set.Spec.FailurePolicy == nil || set.Spec.Network == nil {
		t.Fatalf("expected one replicated job, a failure policy and a network: %+v", set.Spec)
	}
	ranks := set.Spec.ReplicatedJobs[0]
	job := ranks.Template.Spec
	if ranks.Replicas != 1 || *job.Completions != *job.Parallelism || *job.CompletionMode != batch.IndexedCompletion || *job.BackoffLimit != 0 {
		t.Errorf("the ranks would not run all at once, or not end together: %+v", job)
	}
	env := map[string]string{}
	for _, e := range job.Template.Spec.Containers[0].Env {
		switch {
		case e.ValueFrom == nil:
			env[e.Name] = e.Value
		case e.ValueFrom.FieldRef != nil:
			if e.ValueFrom.FieldRef.FieldPath != "metadata.labels['jobset.sigs.k8s.io/restart-attempt']" {
				t.Errorf("%s is %s, expected the number of the attempt", e.Name, e.ValueFrom.FieldRef.FieldPath)
			}
			env[e.Name] = "2"
		default:
			env[e.Name] = "the secret of " + e.ValueFrom.SecretKeyRef.Name
		}
	}
	// JobSet: set, job, number of the job, number of the pod; and the subdomain, which is
	// the set's name where none is given.
	zero := set.Name + "-" + ranks.Name + "-0-0." + set.Name
	for rank := range int(*job.Completions) {
		env["JOB_COMPLETION_INDEX"] = strconv.Itoa(rank)
		w, err := rendezvous.Resolve(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if w.Rank != rank || w.Size != int(*job.Completions) || w.MasterAddr != zero || w.Epoch != 2 {
			t.Errorf("pod %d: %v, attempt %d; expected rank %d of %d at %s, attempt 2", rank, w, w.Epoch, rank, *job.Completions, zero)
		}
	}
}
