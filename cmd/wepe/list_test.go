// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	detection "github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/setting"
)

// DeiT's settings (https://arxiv.org/abs/2012.12877, table 9), those of detectron2's FastRCNNOutputLayers and MAE's
// (https://arxiv.org/abs/2111.06377, table 9). What the data or MODEL decide is marked, and nothing else.
func TestValuesOf_ARecipe(t *testing.T) {
	for recipe, want := range map[string]struct {
		values  map[string]string
		decided []string
	}{
		"scratch": {map[string]string{"model.width": "384", "optimizer.weight_decay": "0.05", "label_smoothing": "0.1"}, nil},
		"scenes":  {map[string]string{"detector.roi.score_threshold": "0.05"}, nil},
		"photos":  {nil, []string{"batch_size", "epochs", "warmup_epochs"}},
		fineTuning: {map[string]string{"optimizer.weight_decay": "0.05", "label_smoothing": "0.1"},
			[]string{"augment.size", "batch_size", "epochs", "learning_rate", "model.position"}},
	} {
		values, decided := map[string]string{}, []string(nil)
		for _, e := range gomlxtest.Must(valuesOf(recipe, listSettings()))(t) {
			if values[e.Name] = e.Value; strings.HasPrefix(e.About, "by ") {
				decided = append(decided, e.Name)
			}
		}
		for name, value := range want.values {
			is.Equal(t, "recipe "+recipe+": "+name, values[name], value)
		}
		slices.Sort(decided)
		is.Equal(t, "recipe "+recipe+": the data decide", decided, want.decided)
	}
	_, err := valuesOf("scrath", nil)
	is.Equal(t, fmt.Sprint(err, " is an error about an unknown name"), errors.As(err, new(*setting.UnknownError)), true)
}

func TestWrapped(t *testing.T) {
	for width, want := range map[int][]string{4: {"αβ γ", "δεζηθ", "ι"}, 10: {"αβ γ δεζηθ", "ι"},
		99: {"αβ γ δεζηθ ι"}} {
		is.Equal(t, strconv.Itoa(width), wrapped("αβ γ δεζηθ ι", width), want)
	}
}

// The meaning comes from the comment of the field; a field without a comment has none.
func TestSettings_AreKnownAndHaveAMeaning(t *testing.T) {
	listed := map[string]bool{}
	for _, e := range listSettings() {
		listed[e.Name] = true
		meaning, _, _ := strings.Cut(e.About, ";")
		is.Equal(t, fmt.Sprintf("%s has the meaning %q", e.Name, meaning), len(meaning) > 1, true)
		name := strings.Replace(e.Name, "GROUP", "head", 1)
		_, err := (finetune.Recipe{}).Set(name + "=1")
		if strings.HasSuffix(e.About, "for wepe detect train") {
			_, err = (detection.Recipe{}).Set(name + "=1")
		}
		is.Equal(t, e.Name+" is unknown", err != nil && strings.Contains(err.Error(), "unknown"), false)
	}
	for _, name := range []string{"optimizer.learning_rates.GROUP", "wepe_alpha_scale", "detector.rpn.nms_iou"} {
		is.Equal(t, name+" is listed", listed[name], true)
	}
}

// Flags that stand after those of a section are of the command.
func TestHelp_SharedFlagsAreInTheFirstSection(t *testing.T) {
	for _, c := range []string{"predict", "eval", "verify", "inspect"} {
		text := succeeds(t, c+" --help")
		is.Equal(t, c+": --json is below --grid", strings.Index(text, "--json") > strings.Index(text, "--grid"), false)
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{"train --recipe ": "cifar100-15", "detect train --recipe ": "scenes",
		"analyze --analyses ": "similarity", "train --position ": "wepe-v", "export a b --to ": "native"} {
		is.Said(t, line+"TAB", "\n"+succeeds(t, "__complete", strings.Split(line, " ")...), "\n"+want+"\n")
	}
}

// The modules are those that the Go tool put into this program.
func TestLicenses(t *testing.T) {
	out := succeeds(t, "licenses")
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		is.Said(t, "licenses", out, m.Path+" "+m.Version+"\n")
	}
}

// misspelt are command lines with an unknown word, by the word that is meant.
var misspelt = map[string]string{
	"predct": "predict", "detect trian": "train", "list recipe": "recipes", "train --recipe shape": "shapes",
	"train --set eposhs=3": "epochs", "train --data shapes:were": "where", "export " + oldRun + " x --to tim": "timm",
	"compare --study aspct": "aspect", "detect train --recipe scene": "scenes", "train --set foo=1": "",
	"train --position sphere": "wepe-sphere",
	"train --position rope":   "rope1d", "train --set lr=0.1": "learning_rate", "train --set dropout=0.1": "model.dropout",
	"train --set heads=2": "model.num_heads", "train --set model.dropot=0.1": "model.dropout",
	"train --lr0 1": "--lr?", "train --opt sgd": "--set optimizer.name=", "train --device cuda": "--backend xla:cuda",
	"train --imgsz 64": "--size", "compare --imgsz 64": "--sizes", "compare --size 32": "--sizes?",
	"export a --format onnx":   "--to?",
	"train --weight-decay 0.1": "--set optimizer.weight_decay=", "train --pretrained x": "MODEL",
	"detect train --lr 0.1":       "--set learning_rate=",
	"train --set wepe_harmonic=2": "wepe_harmonics",
}

// usage are command lines that are refused before anything is read or trained, by what the error names.
var usage = map[string][]string{
	"-q": {"features --knn -q 3 x"}, "--lerning-rate": {"train --lerning-rate 3"}, "--top": {"predict a b --topp 3",
		"predict " + oldRun + " x.png --top 0"},
	"--position": {"train --position wepe,learned", "train --set model.position=wepe", "analyze --positions wepe,learned",
		"detect train --positions wepe,wepe"},
	"now --checkpoint": {"eval x --data y --weights best"}, "now --positions": {"compare --position wepe",
		"detect train --position wepe"}, "now --export-coco": {"detect train --write=x"},
	"learning_rate": {"train --set learning_rate=nan"}, "size": {"train --size 32x", "analyze --include-init --size 32x32",
		"train --size 24x24 --set augment.size=[32,32]"},
	"learning_rate=nan": {"train --lr nan --set epochs=3", "compare --lr nan --set epochs=3"},
	"batch_size":        {"train --batch-size 6 --set batch_size=7", "compare --set batch_size=7 --batch-size 6"},
	"--grid": {"predict " + oldRun + " x.png --grid 3x5", "train " + oldRun + " --grid 3x5",
		"inspect " + oldRun + " --grid 8"},
	"--architecture": {"export " + oldRun + " x --architecture foo", "verify " + oldRun + "/last --architecture foo",
		"compare " + oldRun + " --architecture vit_tiny_patch16_224", "analyze " + oldRun + " --architecture foo"},
	"--resample": {"export " + demoModel + " x --resample timm",
		"export " + oldRun + " x --to native --size 64x64 --resample hf"},
	"--num-shards": {"compare --num-shards 3", "compare --shard 0/2 --num-shards 2"},
	"--classes":    {"export " + demoModel + " x --classes -1", "export " + demoModel + " x --no-head --classes 9"},
	"steps":        {"detect train --set steps=1"},
	"--csv":        {"predict " + oldRun + " " + corner + " --csv --json"},
	"--save-every": {"train --save-every never"}, "--stream": {"train --workers 3", "train --stream"},
	"--download": {"train --download"}, "MODEL": {"train --grid 3x5", "detect train --grid 3x5", "compare --study gate",
		"train --recipe finetune"},
	"aspect": {"train --aspect crop --set aspect=keep"}, "lora": {"train --lora 8 --set lora=4"},
	"eval MODEL --data D": {"eval x"}, "split": {"eval x --data shapes --split foo"},
	"epochs":  {"train --epochs 0", "train --epochs 1 --set epochs=2", "train --epochs 1 --set steps=40"},
	"--batch": {"serve x --batch 0"}, "at least 2": {"predict " + oldRun}, "--seeds": {"compare --seeds 0",
		"detect train --export-coco x --seeds 3"},
	"--study": {"compare --filter x"}, "--fractions": {"compare --resample-images"},
	"--recipe photographs": {"detect train --recipe photographs"},
	"--objects":            {"detect eval x --data coco:y --objects 3", "detect train --data coco:x --objects 1"},
	"--analyses":           {"analyze --analyses atention", "analyze --analyses cost,entropy"},
	"--images": {"verify " + oldRun + " x --images 0",
		"verify " + demoModel + " --images 3"},
	"--data": {"resume " + oldRun + " --epochs 1"}, ".png": {"train --show-augmentation a.jpg"},
	"--limit": {"analyze --analyses cost --limit 3"}, demoModel: {"analyze --analyses cost " + demoModel},
	"--k":           {"features " + demoModel + " --probe --k 3"},
	"--temperature": {"features " + demoModel + " --pca --temperature 1"},
	"--num-images":  {"features " + demoModel + " --knn --num-images 3"},
	"--foreground":  {"features " + demoModel + " --nearest --foreground"},
	// Settings without effect.
	"position learned": {"train --position learned --set wepe_alpha_scale=0.9",
		"train " + demoModel + " --data shapes --set wepe_harmonics=3"}, // the model's own
	"position none, learned":  {"compare --positions none,learned --set wepe_alpha_scale=0.9"},
	"position " + fromScratch: {"train --set wepe_beta_pos=0.02"},
	"position grid2d, wepe:":  {"detect train --positions learned,wepe --set rope_theta=3"},
	"--size":                  {"verify " + oldRun + " --size 9", "detect train --export-coco x --sizes 96x96,60x156"},
	"--backend":               {"detect train --export-coco x --backend go"},
	"augment.size":            {"compare --sizes 32x32 --set augment.size=[48,48]"},
	"Pixels":                  {"serve x --max-pixels 89478486"},
	"wepe_alpha_scale":        {"compare --study alpha-scale --set wepe_alpha_scale=0.9"},
	"val_fraction":            {"train --set val_fraction=0", "detect train --set val_fraction=0.3"},
	"mixup_switch_epoch":      {"train --set late_mixup_alpha=0.3"},
	"interpolation":           {"train --set interpolation=bicubic"},
}

func TestUsage_IsRefusedInOneLineThatNamesTheFlag(t *testing.T) {
	check := func(line, want string, code int) error {
		_, got, err := invoke(t, line)
		is.Equal(t, "exit code of wepe "+line, got, code)
		is.Refused(t, "wepe "+line, err, want)
		return err
	}
	for line, meant := range misspelt {
		err := check(line, meant, 2)
		if unknown := (*setting.UnknownError)(nil); meant != "" && errors.As(err, &unknown) {
			is.Equal(t, "wepe "+line, append(cli.Similar(unknown.Word, unknown.Names), "")[0], meant)
		}
	}
	for want, lines := range usage {
		for _, line := range lines {
			_ = check(line, want, 2)
		}
	}
	val := parts(t, map[string]int{"train": 8, "val": 5, "test": 4}, 8, 8)
	cifar := datatest.Tree(t, datatest.CIFAR100(7, 5))
	for _, line := range []string{"train --set val_fraction=0.3", "compare --set val_fraction=0.3"} {
		_ = check(line+" --data "+val, "val_fraction", 2)
	}
	for _, line := range []string{"train --aspect crop", "compare --aspects crop,keep", "compare --set aspect=crop"} {
		_ = check(line+" --data cifar100:"+cifar, "aspect", 2)
	}
	few := images(t, "few", 3, 8, 8)
	for line, want := range map[string]string{ // what is not there fails
		"train --data shape": "shape", "train --data nowhere": "nowhere", "eval " + oldRun + " --data nowhere": "nowhere",
		"predict nowhere x.png": "MODEL nowhere", "export testdata x": oldRun, "resume " + few: few,
		"features " + oldRun + " --data no": "no", "train --data ../../go.mod": "go.mod",
		"train --backend go --out ../../go.mod": "../../go.mod: ", "resume ../../go.mod": "../../go.mod: ",
		"train --backend cuda": "xla:cuda",
	} {
		if err := check(line, want, 1); want == "nowhere" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("wepe %s: %v", line, err)
		}
	}
}
