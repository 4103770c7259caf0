package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ringside-go/ringside/collective/rendezvous"
	"github.com/ringside-go/ringside/net/route"
)

// doc is docs/launch.md.
func doc(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "launch.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// block is the one fenced block of a language.
func block(t *testing.T, language string) string {
	t.Helper()
	parts := strings.Split(doc(t), "```"+language+"\n")
	if len(parts) != 2 {
		t.Fatalf("%d blocks of %s, expected one", len(parts)-1, language)
	}
	text, _, _ := strings.Cut(parts[1], "```")
	return text
}

// known are the variables that Resolve looks at under any launcher, and those that
// launchers of ours set.
func known(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, only := range []string{"", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID SLURM_STEP_ID SLURM_NTASKS", "JOB_COMPLETION_INDEX WORLD_SIZE"} {
		_, _ = rendezvous.Resolve(func(name string) (string, bool) {
			names[name] = true
			switch {
			case !slices.Contains(strings.Fields(only), name):
				return "", false
			case strings.HasSuffix(name, "SIZE"), strings.HasSuffix(name, "NTASKS"):
				return "2", true
			}
			return "1", true
		}, nil)
	}
	return names
}

// TestVariables: every variable that the page names is one that is read, by the ranks or
// by torchrun.
func TestVariables(t *testing.T) {
	names := known(t)
	names["PET_REDIRECTS"], names["PET_TEE"] = true, true
	found := regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b`).FindAllString(doc(t), -1)
	if len(found) < 10 {
		t.Fatalf("only %v are named", found)
	}
	for _, name := range found {
		if !names[name] {
			t.Errorf("%s is named in docs/launch.md and read by nobody", name)
		}
	}
}

// manifest is what the test looks at of both objects.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		// of the service
		ClusterIP                string `yaml:"clusterIP"`
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		Selector                 map[string]string
		// of the job
		CompletionMode string `yaml:"completionMode"`
		Completions    int
		Parallelism    int
		BackoffLimit   *int `yaml:"backoffLimit"`
		Template       struct {
			Spec struct {
				Subdomain     string
				RestartPolicy string `yaml:"restartPolicy"`
				Containers    []struct {
					Name, Image string
					Command     []string
					Ports       []struct {
						ContainerPort int `yaml:"containerPort"`
					}
					Env []struct {
						Name, Value string
						ValueFrom   *struct {
							SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
						} `yaml:"valueFrom"`
					}
				}
			}
		}
	}
}

// TestKubernetes reads the manifest, sets the variables that Kubernetes sets in each pod,
// and checks the rank that Resolve finds.
func TestKubernetes(t *testing.T) {
	d := yaml.NewDecoder(strings.NewReader(block(t, "yaml")))
	// a name that is misspelled here is one that Kubernetes would not know
	d.KnownFields(true)
	objects := map[string]manifest{}
	for {
		var m manifest
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		objects[m.APIVersion+" "+m.Kind] = m
	}
	service, job := objects["v1 Service"], objects["batch/v1 Job"]
	spec := job.Spec.Template.Spec
	if len(objects) != 2 || len(spec.Containers) != 1 {
		t.Fatalf("%d objects, %d containers", len(objects), len(spec.Containers))
	}
	rank := spec.Containers[0]
	if service.Spec.ClusterIP != "None" || !service.Spec.PublishNotReadyAddresses || service.Spec.Selector["job-name"] != job.Metadata.Name ||
		spec.Subdomain != service.Metadata.Name {
		t.Errorf("the service %+v does not name the job's pods", service)
	}
	if job.Spec.CompletionMode != "Indexed" || job.Spec.Completions != job.Spec.Parallelism || spec.RestartPolicy != "Never" || job.Spec.BackoffLimit == nil {
		t.Errorf("the job's ranks would not run all at once: %+v", job.Spec)
	}
	env := map[string]string{}
	for _, e := range rank.Env {
		if env[e.Name] = e.Value; e.ValueFrom != nil {
			env[e.Name] = e.ValueFrom.SecretKeyRef.Name + "'s " + e.ValueFrom.SecretKeyRef.Key
		}
	}
	// without the address RINGSIDE_SERVICE is enough
	for _, explicit := range []bool{true, false} {
		if !explicit {
			delete(env, "MASTER_ADDR")
			env["RINGSIDE_SERVICE"] = service.Metadata.Name
		}
		for i := range job.Spec.Completions {
			env["JOB_COMPLETION_INDEX"] = strconv.Itoa(i)
			env["HOSTNAME"] = fmt.Sprintf("%s-%d", job.Metadata.Name, i)
			w, err := rendezvous.Resolve(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, nil)
			want := fmt.Sprintf("rank %d of %d (Kubernetes' variables), rank 0 at %s-0.%s:%d", i, job.Spec.Completions,
				job.Metadata.Name, service.Metadata.Name, rank.Ports[0].ContainerPort)
			if err != nil || w.String() != want || string(w.Secret) != "allreduce's secret" {
				t.Errorf("pod %d: %v, %v; expected %s", i, w, err, want)
			}
		}
	}
}

// TestBatchScript has bash read the script, and runs it with an srun that prints what its
// task would resolve from.
func TestBatchScript(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatalf("the script in the documentation is read by bash: %v", err)
	}
	script := block(t, "bash")
	check := exec.Command(bash, "-n")
	check.Stdin = strings.NewReader(script)
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("bash -n: %v: %s", err, out)
	}
	directives := regexp.MustCompile(`(?m)^#SBATCH --([a-z-]+)=(.+)$`).FindAllStringSubmatch(script, -1)
	values := map[string]int{}
	for _, d := range directives {
		values[d[1]], _ = strconv.Atoi(d[2])
	}
	ranks := values["nodes"] * values["ntasks-per-node"]
	if ranks < 4 || !strings.HasPrefix(script, "#!/bin/bash\n#SBATCH ") {
		t.Fatalf("the directives %v start %d ranks", values, ranks)
	}
	bin := t.TempDir()
	task := "#!/bin/sh\necho \"$RINGSIDE_SECRET\"; echo \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "srun"), []byte(task), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bash)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	secret, args, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	if len(secret) < 40 || !bytes.HasSuffix(args, []byte("/opt/allreduce")) {
		t.Errorf("srun got the secret %q and the arguments %q", secret, args)
	}
	env := map[string]string{
		"SLURM_PROCID": strconv.Itoa(ranks - 1), "SLURM_NTASKS": strconv.Itoa(ranks), "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_ID": "0",
		"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_TASKS_PER_NODE": fmt.Sprintf("%d(x%d)", values["ntasks-per-node"], values["nodes"]),
		"RINGSIDE_SECRET": string(secret),
	}
	w, err := rendezvous.Resolve(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, nil)
	if err != nil || w.Rank != ranks-1 || w.Size != ranks || w.MasterAddr != "node1" || w.LocalSize != 2 || !bytes.Equal(w.Secret, secret) {
		t.Errorf("%v, %v", w, err)
	}
}

// TestErrors: what the document says of errors is what they say.
func TestErrors(t *testing.T) {
	for _, err := range []error{rendezvous.ErrUnreachable, rendezvous.ErrDuplicateRank, rendezvous.ErrWorldSize, rendezvous.ErrSecret,
		rendezvous.ErrMissing, route.ErrMesh} {
		_, text, _ := strings.Cut(err.Error(), ": ")
		if !strings.Contains(doc(t), "`"+text) {
			t.Errorf("%q is not in docs/launch.md", text)
		}
	}
	for vars, text := range map[string]string{"RANK=1": "WORLD_SIZE is not set although", "RANK=x WORLD_SIZE=2": "expected a whole number", "RANK=0 WORLD_SIZE=2": "MASTER_ADDR is not set"} {
		_, err := rendezvous.Resolve(func(name string) (string, bool) { v := lookup(strings.Fields(vars), name); return v, v != "" }, nil)
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(doc(t), "`"+text+"`") {
			t.Errorf("with %s: %v; expected %q, there and in docs/launch.md", vars, err, text)
		}
	}
}
