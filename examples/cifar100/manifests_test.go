// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/mpi"
)

// What the manifests say, of what Kubernetes (batch/v1) and the MPI operator (v2beta1) know: other fields are errors.
type (
	manifest struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       struct {
			CompletionMode           string `yaml:"completionMode"`
			Completions, Parallelism int
			PodFailurePolicy         struct {
				Rules []struct {
					Action      string
					OnExitCodes struct {
						Operator string
						Values   []int
					} `yaml:"onExitCodes"`
				}
			} `yaml:"podFailurePolicy"`
			Template template

			SlotsPerWorker int `yaml:"slotsPerWorker"`
			RunPolicy      struct {
				CleanPodPolicy string `yaml:"cleanPodPolicy"`
				BackoffLimit   int    `yaml:"backoffLimit"`
			} `yaml:"runPolicy"`
			SSHAuthMountPath string `yaml:"sshAuthMountPath"`
			MPIReplicaSpecs  struct {
				Launcher replicaSpecs `yaml:"Launcher"`
				Worker   replicaSpecs `yaml:"Worker"`
			} `yaml:"mpiReplicaSpecs"`
		}
	}
	replicaSpecs struct {
		Replicas      int
		RestartPolicy string `yaml:"restartPolicy"`
		Template      template
	}
	template struct {
		Spec struct {
			RestartPolicy                 string `yaml:"restartPolicy"`
			TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
			Containers                    []container
			Volumes                       []struct {
				Name                  string
				PersistentVolumeClaim struct {
					ClaimName string `yaml:"claimName"`
					ReadOnly  bool   `yaml:"readOnly"`
				} `yaml:"persistentVolumeClaim"`
			}
		}
	}
	container struct {
		Name, Image  string
		Command      []string
		Env          []struct{ Name, Value string }
		Resources    struct{ Limits map[string]int }
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
)

// flagsOf is what a command gives this program, whose flags it must be, and its way to sum.
func flagsOf(t *testing.T, command []string) (o options, way string) {
	t.Helper()
	at := slices.Index(command, "cifar100")
	if at < 0 {
		t.Fatalf("%q does not start cifar100", command)
	}
	var args []string
	for rest := command[at+1:]; len(rest) > 0; rest = rest[1:] {
		value, is := strings.CutPrefix(rest[0], "-mpi=")
		switch {
		case is:
			way = value
		case rest[0] == "-mpi":
			way, rest = rest[1], rest[1:]
		default:
			args = append(args, rest[0])
		}
	}
	if way != "" {
		if err := mpi.Validate(way); err != nil {
			t.Errorf("-mpi: %v", err)
		}
	}
	return gomlxtest.Must(parse(args))(t), way
}

func TestTheManifestsOfKubernetesAreWhatItKnowsAndStartThisProgram(t *testing.T) {
	t.Setenv("JOB_COMPLETION_INDEX", "3") // as in a pod
	files := gomlxtest.Must(filepath.Glob("../../docs/scale/*.yaml"))(t)
	if len(files) != 2 {
		t.Errorf("manifests are %q, want a study's and a training's", files)
	}
	for _, file := range files {
		var m manifest
		decoder := yaml.NewDecoder(bytes.NewReader(gomlxtest.Must(os.ReadFile(file))(t)))
		decoder.KnownFields(true)
		if err := decoder.Decode(&m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		pod := m.Spec.Template.Spec
		switch s := m.Spec; m.Kind + " " + m.APIVersion {
		case "Job batch/v1":
			o, _ := flagsOf(t, pod.Containers[0].Command)
			if shard := o.study.Shard; s.CompletionMode != "Indexed" || shard.Of != s.Completions || shard.Index != 3 {
				t.Errorf("%s: pod 3 of %d %s does part %+v", file, s.Completions, s.CompletionMode, shard)
			}
		case "MPIJob kubeflow.org/v2beta1":
			command := s.MPIReplicaSpecs.Launcher.Template.Spec.Containers[0].Command
			t.Setenv("JOB_COMPLETION_INDEX", "")
			os.Unsetenv("JOB_COMPLETION_INDEX")
			o, way := flagsOf(t, command)
			workers := s.MPIReplicaSpecs.Worker.Replicas
			if n := slices.Index(command, "-np"); command[0] != "mpirun" || way == "" || command[n+1] != "4" || workers != 4 ||
				o.recipe.Accumulate != workers*s.SlotsPerWorker {
				t.Errorf("%s: %d workers of %d processes run %q", file, workers, s.SlotsPerWorker, command)
			}
			pod = s.MPIReplicaSpecs.Worker.Template.Spec
		default:
			t.Errorf("%s is a %s of %s", file, m.Kind, m.APIVersion)
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			found := false
			for _, volume := range pod.Volumes {
				found = found || volume.Name == mount.Name
			}
			if !found {
				t.Errorf("%s mounts %s, which is no volume of it", file, mount.Name)
			}
		}
		if pod.Containers[0].Resources.Limits["nvidia.com/gpu"] == 0 {
			t.Errorf("%s asks for no GPU", file)
		}
	}
}

func TestTheScriptsOfSlurmStartThisProgram(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	files := gomlxtest.Must(filepath.Glob("../../docs/scale/*.sbatch"))(t)
	if len(files) != 2 {
		t.Errorf("scripts are %q, want a study's and a training's", files)
	}
	for _, file := range files {
		// srun prints what it is given.
		out, err := exec.Command(bash, "-c", `srun() { printf '%s\n' "$@"; }; . "$0"`, file).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", file, err, out)
		}
		script := string(gomlxtest.Must(os.ReadFile(file))(t))
		o, way := flagsOf(t, strings.Split(strings.TrimSpace(string(out)), "\n"))
		if way != "" && (o.recipe.Accumulate != 4 || !strings.Contains(script, "--nodes=4 --ntasks-per-node=1")) {
			t.Errorf("%s: a batch in %d parts is not one for each of four nodes", file, o.recipe.Accumulate)
		}
		if way == "" && !strings.Contains(script, "--array=") {
			t.Errorf("%s is neither an array nor an MPI job", file)
		}
		if !strings.Contains(script, "--signal=TERM@") {
			t.Errorf("%s does not tell the program before its time is over", file)
		}
	}
}
