// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// A generator alone is no model, any other variable is.
func TestAStoreWithVariablesIsLoadedOnlyWithTheSameOnes(t *testing.T) {
	dir := t.TempDir()
	save(t, Saver{Dir: dir}, newStore(t, 1), 3, nil)
	c, _ := newest(t, dir)
	for _, extra := range []int{0, 1, 2, 3} {
		for _, seeded := range []bool{false, true} {
			store := model.NewStore()
			for i := range extra {
				store.RootScope().VariableWithValue(fmt.Sprintf("x%d", i), float32(1))
			}
			if seeded {
				if err := store.SetRNGStateFromSeed(42); err != nil {
					t.Fatal(err)
				}
			}
			err := c.Load(store, nil)
			if extra == 0 {
				if err != nil {
					t.Errorf("a fresh store, with a generator %v: %v", seeded, err)
				}
			} else if mismatch := onlyMismatch(t, err); len(mismatch.Missing) != extra {
				t.Errorf("%d variables, with a generator %v: %v", extra, seeded, err)
			}
		}
	}
	loading := model.NewStore()
	loading.SetLoader(noLoader{})
	if err := c.Load(loading, nil); !errors.Is(err, errLoader) {
		t.Errorf("a store with a loader: %v", err)
	}
	m := &Imported{Config: smallViT, Variables: map[string]*tensors.Tensor{}}
	if err := m.Load(loading.Scope("/vit")); !errors.Is(err, errLoader) {
		t.Errorf("an import into a store with a loader: %v", err)
	}
}

// noLoader loads nothing.
type noLoader struct{ model.Loader }

// A manifest with the hash of its content is still read strictly.
func TestASealedManifestIsReadStrictly(t *testing.T) {
	const files = `"files":[{"name":"variables.safetensors","size":1,"sha256":"0"},` +
		`{"name":"store.json","size":2,"sha256":"f"}]`
	for body, want := range map[string]string{
		`{"format":"wepe checkpoint","version":1,"step":0,` + files + `,"meta":null}`: "", // JSON's null is a meta
		`{"format":"wepe checkpoint","version":1,"step":7,` + files + `,"meta":{}}`:   "",
		`{"format":1}`:   "not a manifest: json: cannot unmarshal number into Go struct field manifest.format of type string",
		`{"formats":""}`: `not a manifest: json: unknown field "formats"`,
		`{"format":"other","version":1,"step":7,` + files + `,"meta":{}}`: `format "other" version 1, this program reads ` +
			`"wepe checkpoint" version 1`,
		`{"format":"wepe checkpoint","version":2,"step":7,` + files +
			`,"meta":{}}`: `format "wepe checkpoint" version 2, this ` +
			`program reads "wepe checkpoint" version 1`,
		`{"format":"wepe checkpoint","version":1,"step":-1,` + files + `,"meta":{}}`: "step -1",
		`{"format":"wepe checkpoint","version":1,"step":7,` + files + `}`:            "meta is missing",
		`{"format":"wepe checkpoint","version":1,"step":7,"files":[],"meta":{}}`: "its files are not " +
			"variables.safetensors and store.json",
		`{"format":"wepe checkpoint","version":1,"step":7,` + strings.Replace(files, "store", "stores", 1) +
			`,"meta":{}}`: "its files are not variables.safetensors and store.json",
		`{"format":"wepe checkpoint","version":1,"step":7,` + strings.Replace(files, "variables", "x", 1) +
			`,"meta":{}}`: "its files are not variables.safetensors and store.json",
		`{"format":"wepe checkpoint","version":1,"step":7,` + strings.Replace(files, "}]",
			`},{"name":"x","size":3,"sha256":""}]`, 1) +
			`,"meta":{}}`: "its files are not variables.safetensors and store.json",
	} {
		sealed := fmt.Sprintf(`{"manifest":%s,"sha256":"%x"}`, body, sha256.Sum256([]byte(body)))
		m, err := unseal("M", []byte(sealed))
		if want != "" {
			want = "checkpoints: M: " + want
		}
		if (err == nil) != (want == "") || err != nil && err.Error() != want || err == nil && len(m.Files) != 2 {
			t.Errorf("%s: %+v, %v, want %q", body, m, err, want)
		}
	}
}

func TestAHyperparameterThatCannotBeReadIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"func()","value":1}`:             `unknown type "func()"`,
		`{"type":"int8","value":300}`:             "json: cannot unmarshal number 300 into Go value of type int8",
		`{"type":"float64","value":"many"}`:       `strconv.ParseFloat: parsing "many": invalid syntax`,
		`{"type":"string","value":3}`:             "json: cannot unmarshal number into Go value of type string",
		`{"type":"float32","value":"-Inf"}`:       "",
		`{"type":"string","value":"NaN"}`:         "",
		`{"type":"[]float64","value":[0.5,1e10]}`: "",
	} {
		raw := `{"params":[{"path":"/x",` + text[1:] + `],"frozen":["/y"]}`
		params, frozen, err := decodeStore("S", []byte(raw))
		if want != "" {
			want = `checkpoints: S: hyperparameter "/x": ` + want
		}
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err == nil && (params["/x"] == nil || !maps.Equal(frozen, map[string]bool{"/y": true})) {
			t.Errorf("%s: %v, frozen %v", text, params, frozen)
		}
	}
	if _, _, err := decodeStore("S", []byte(`{"x":1}`)); err == nil ||
		err.Error() != `checkpoints: S: json: unknown field "x"` {
		t.Error(err)
	}
}

func TestTheLimitsOfASafetensorsFileHaveTheirEnds(t *testing.T) {
	none := tensors.FromShape(shapes.Make(dtypes.Uint8, 0))
	tensor := func(name string, dims ...int) outTensor {
		return outTensor{name, shapes.Make(dtypes.Uint8, dims...), func(io.Writer) error { return nil }}
	}
	many := make([]outTensor, maxTensors+1)
	for i := range many {
		many[i] = tensor(fmt.Sprint(i), 0)
	}
	ranks := make([]int, maxRank+1) // zeros
	const longest = maxName / 6
	for name, c := range map[string]struct {
		out  []outTensor
		want string
	}{
		"rank 16": {[]outTensor{tensor("a", ranks[:maxRank]...)}, ""},
		"rank 17": {[]outTensor{tensor("a", ranks...)}, `tensor "a": want a UTF-8 name of at most 682 bytes and rank at ` +
			`most 16`},
		"name": {[]outTensor{tensor(strings.Repeat("a", longest), 0)}, ""},
		"longer name": {[]outTensor{tensor(strings.Repeat("a", longest+1), 0)},
			"want a UTF-8 name of at most 682 bytes and rank at most 16"},
		"not UTF-8": {[]outTensor{tensor("a\xff", 0)}, "want a UTF-8 name of at most 682 bytes and rank at most 16"},
		"many":      {many[:maxTensors], ""},
		"too many":  {many, "65537 tensors do not fit in a file, the limit is 65536"},
		"another type": {[]outTensor{asIs("c", tensors.FromValue(complex64(1)))},
			`tensor "c": safetensors has no type for Complex64`},
		"without number": {[]outTensor{asIs("x", none)}, ""},
	} {
		var raw bytes.Buffer
		err := writeSafetensors(&raw, "", c.out)
		if (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), "checkpoints: ") ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// Names of 636 bytes, of which the first make the header as long as the longest that is read, or one byte longer.
	all := make([]outTensor, 25000)
	for i := range all {
		all[i] = tensor(fmt.Sprintf("%0636d", i), 0)
	}
	var raw bytes.Buffer
	length := func(out []outTensor) (int, error) {
		raw.Reset()
		err := writeSafetensors(&raw, "", out)
		return raw.Len() - 8, err
	}
	const one = 636 + len(`"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`)
	n := maxHeader / one
	if n > len(all) {
		t.Fatalf("%d names are too few", len(all))
	}
	left := maxHeader - (n*one + 1) // of the last comma and both braces
	for more, want := range map[int]string{left: "", left + 1: "the header has 16777217 bytes, more than 16777216: use " +
		"shorter names"} {
		out := slices.Clone(all[:n])
		for k := 0; more > 0; k++ { // at most 40 bytes longer each
			add := min(more, 40)
			out[k].name += strings.Repeat("b", add)
			more -= add
		}
		is, err := length(out)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil &&
			is != maxHeader {
			t.Errorf("%v, a header of %d bytes, want %q", err, is, want)
		}
	}
}

func TestTheLargestHeadersAndIndicesAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		raw     []byte
		tensors int
	}{
		"nothing":       {rawFile("{}", nil), 0},
		"longest name":  {rawFile(`{"`+strings.Repeat("a", maxName)+`":{`+f32+`}}`, make([]byte, 8)), 1},
		"most metadata": {rawFile(manyKeys(maxMetadata), nil), 0},
	} {
		if got, err := readAll(c.raw); err != nil || len(got) != c.tensors {
			t.Errorf("%s: %d tensors, %v", name, len(got), err)
		}
	}
	for n, want := range map[int]string{maxTensors: "", 0: "want 1 to 65536 tensors"} {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"%d":"a.safetensors"`, i))
		}
		got, err := parseIndex("I", []byte(`{"weight_map":{`+strings.Join(list, ",")+`}}`))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && len(got) != n {
			t.Errorf("%d tensors: %d, %v, want %q", n, len(got), err, want)
		}
	}
}

// A pointer of git-lfs (https://git-lfs.com), a page in place of a file, a pickle of protocol 2, anything else.
func TestAFileOfAnotherKindIsCalledWhatItIs(t *testing.T) {
	for begin, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\n": "a pointer of git-lfs in place of the weights: git lfs pull " +
			"fetches them",
		"<!DOCTYPE html>":     "a page of the web in place of the weights: fetch the file itself",
		"\x80\x02}q\x00.....": "a pickle, which is never read: save as safetensors",
		"PK is no zip.....": "no safetensors file, or a damaged one (a header of 8029390865705225040 bytes in a " +
			"file of 116)",
		"{\"a\": 1, \"b\": 2}":  "a JSON file in place of the weights: name the weights or their directory",
		"\x89PNG\r\n\x1a\n....": "an image in place of the weights: the model comes before images",
	} {
		raw := begin + strings.Repeat(" ", 99)
		_, err := readAll([]byte(raw))
		if err == nil || err.Error() != "checkpoints: x.safetensors: "+want {
			t.Errorf("%q: %v, want %s", begin, err, want)
		}
	}
	whole := string(withShape("2"))
	for _, n := range []int{3, 20} { // a file that becomes shorter while it is read
		_, err := readSafetensorsHeader(strings.NewReader(whole[:n]), int64(len(whole)), "x")
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), "checkpoints: reading x: ") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestADirectoryThatCannotBeUsedIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	putFile(t, file, nil)
	if err := os.MkdirAll(filepath.Join(dir, "locked", lockName), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "x.onnx"), 0o755); err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(dir, "empty.onnx"), nil)
	putFile(t, filepath.Join(dir, "other.onnx"), []byte("9"))
	lock := func(path string) error { _, err := Lock(path); return err }
	write := func(path string) error {
		_, err := Saver{Dir: path}.Save(newStore(t, 1), 3, nil)
		return err
	}
	inspect := func(path string) error { _, err := Inspect(path, ImportOptions{}); return err }
	all := func(path string) error { _, err := All(path); return err }
	find := func(path string) error { _, _, err := Find(path, ""); return err }
	open := func(path string) error { _, err := openCheckpoint(path); return err }
	for _, c := range []struct {
		do         func(string) error
		path, want string
	}{
		{lock, filepath.Join(file, "run"), "checkpoints: run directory: "},
		{write, filepath.Join(file, "run", "deep"), "checkpoints: run directory: mkdir " + filepath.Join(file, "run") + ": "},
		{lock, filepath.Join(dir, "locked"), "checkpoints: locking " + filepath.Join(dir, "locked") + ": "},
		{write, filepath.Join(file, "run"), "checkpoints: run directory: "},
		{write, file, "checkpoints: open " + file + ": "},
		{inspect, filepath.Join(dir, "x.onnx"), "checkpoints: " + filepath.Join(dir, "x.onnx") + ": not a regular file"},
		{inspect, filepath.Join(dir, "empty.onnx"), "checkpoints: " + filepath.Join(dir, "empty.onnx") +
			": no ONNX file, or a damaged one"},
		{inspect, filepath.Join(dir, "other.onnx"), "checkpoints: " + filepath.Join(dir, "other.onnx") +
			": no ONNX file, or a damaged one"},
		{inspect, filepath.Join(dir, "absent"), "checkpoints: stat " + filepath.Join(dir, "absent") + ": "},
		{all, file, "checkpoints: "}, {open, dir, "checkpoints: stat " + filepath.Join(dir, manifestName)},
	} {
		if err := c.do(c.path); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	if err := find(file); err != nil {
		t.Errorf("a file has no checkpoint: %v", err)
	}
	if err := (osFiles{}).syncDir(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is gone was synced: %v", err)
	}
}

// The names of one run: attempts of a step, and what no Save writes.
func TestTheNamesOfCheckpointsAreOrderedByStepAndAttempt(t *testing.T) {
	for base, want := range map[string]dirName{
		"step-00000007": {step: 7}, "step-00000007.3": {step: 7, attempt: 3}, "step-123456789": {step: 123456789},
		"step-00000007.tmp-15": {step: 7, temporary: true}, "step-00000007.3.tmp-15": {step: 7, attempt: 3, temporary: true},
		"step-999999999999999999": {step: 999999999999999999},
	} {
		if got, ok := parseName(base); !ok || got != want {
			t.Errorf("%s: %+v, %v", base, got, ok)
		}
	}
	for _, base := range []string{"step-7", "step-000000007", "step-00000007.0", "step-00000007.03", "step-0000000x",
		"step-1999999999999999999", "step-00000007.tmp-", "xstep-00000007", "step-00000007.1234567"} {
		if got, ok := parseName(base); ok {
			t.Errorf("%s: %+v", base, got)
		}
	}
	dir := t.TempDir()
	for range 12 {
		save(t, Saver{Dir: dir, KeepAll: true}, model.NewStore(), 7, nil)
	}
	save(t, Saver{Dir: dir, KeepAll: true}, model.NewStore(), 6, nil)
	whole, _, err := listNames(dir)
	var got []string
	for _, path := range whole {
		got = append(got, strings.TrimPrefix(filepath.Base(path), "step-0000000"))
	}
	if want := "7.11 7.10 7.9 7.8 7.7 7.6 7.5 7.4 7.3 7.2 7.1 7 6"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
}

func TestACheckpointOfTheOtherKindIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := save(t, Saver{Dir: filepath.Join(dir, BestDir)}, model.NewStore(), 7, nil)
	for which, want := range map[string]string{"": "", BestDir: "",
		LastDir: fmt.Sprintf("checkpoints: %s has no %q checkpoint, only %s", dir, LastDir, path),
		"first": `checkpoints: weights "first": want "best", "last" or "start"`} {
		c, skipped, err := Find(dir, which)
		if (err == nil) != (want == "") || err != nil && err.Error() != want || (c != nil) != (want == "") ||
			len(skipped) > 0 {
			t.Errorf("%q: %+v, %v, %v, want %q", which, c, skipped, err, want)
		}
	}
	if c, _, err := Find(t.TempDir(), LastDir); c != nil || err != nil {
		t.Errorf("an empty directory: %+v, %v", c, err)
	}
	killed := t.TempDir() // while it saved the first checkpoint in best/
	if err := os.MkdirAll(filepath.Join(killed, BestDir, "step-00000007.tmp-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Find(killed, ""); err == nil || !strings.Contains(err.Error(), "no intact checkpoint in "+killed) {
		t.Errorf("nothing but a half-written checkpoint: %v", err)
	}
	save(t, Saver{Dir: filepath.Join(killed, LastDir)}, model.NewStore(), 7, nil)
	if c, skipped, err := Find(killed, ""); c == nil || len(skipped) != 1 || err != nil {
		t.Errorf("a half-written checkpoint in best, one in last: %+v, %v, %v", c, skipped, err)
	}
	putFile(t, filepath.Join(path, storeName), nil)
	want := fmt.Sprintf("checkpoints: no intact checkpoint in %s: %s skipped: checkpoints: %s: 0 bytes, its manifest "+
		"says 37",
		filepath.Dir(path), path, filepath.Join(path, storeName))
	if _, _, err := Find(dir, ""); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// removing removes the new checkpoint as soon as it is complete, as another process could.
type removing struct{ osFiles }

func (removing) rename(from, to string) error {
	return errors.Join(os.Rename(from, to), os.RemoveAll(to))
}

func TestACheckpointThatVanishesWhileItIsSavedIsAnError(t *testing.T) {
	path, err := Saver{Dir: t.TempDir(), files: removing{}}.Save(model.NewStore(), 7, nil)
	if err == nil || err.Error() != "checkpoints: step-00000007 was removed by someone else while it was saved" ||
		filepath.Base(path) != "step-00000007" {
		t.Errorf("%q, %v", path, err)
	}
	path, err = Saver{Dir: t.TempDir(), files: removing{}, KeepAll: true}.Save(model.NewStore(), 7, nil)
	if err != nil {
		t.Errorf("%q, %v", path, err)
	}
	dir := t.TempDir()
	_, err = Saver{Dir: dir, files: newFaultyFiles(2, failIO)}.Save(model.NewStore(), 7, nil)
	if want := "checkpoints: saving " + filepath.Join(dir, "step-00000007") + ": "; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestWeightsAreFoundByTheirNames(t *testing.T) {
	dir := t.TempDir()
	in := func() string {
		path, err := weightsIn(dir)
		if err != nil {
			return strings.ReplaceAll(err.Error(), dir, "x")
		}
		return filepath.Base(path)
	}
	const none = "checkpoints: x contains no run and no weights: want model.safetensors, " +
		"model.safetensors.index.json or an .npz file " +
		"(pickles such as pytorch_model.bin are not read: save them as safetensors)"
	const two = "checkpoints: x contains neither model.safetensors nor model.safetensors.index.json, and 2 .npz files: " +
		"name the file of weights"
	if err := os.Mkdir(filepath.Join(dir, foreignWeights), 0o755); err != nil { // a directory of that name does not count
		t.Fatal(err)
	}
	for _, step := range []struct{ file, want string }{
		{"", none}, {"a.npz", "a.npz"}, {"b.npz", two}, {foreignHalf, foreignHalf},
		{foreignIndex, foreignIndex},
	} {
		if step.file != "" {
			putFile(t, filepath.Join(dir, step.file), nil)
		}
		if got := in(); got != step.want {
			t.Errorf("with %q: %s, want %s", step.file, got, step.want)
		}
	}
	if err := os.Remove(filepath.Join(dir, foreignWeights)); err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(dir, foreignWeights), nil)
	if got := in(); got != foreignWeights {
		t.Errorf("with all: %s", got)
	}
	index := filepath.Join(dir, foreignIndex)
	putFile(t, index, []byte(`{"weight_map":{"a":"2.safetensors","b":"1.safetensors","c":"2.safetensors"}}`))
	if got, err := Shards(index); err != nil || !slices.Equal(got, []string{"1.safetensors", "2.safetensors"}) {
		t.Errorf("shards %q, %v", got, err)
	}
	if _, err := Shards(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no index: %v", err)
	}
}

// Numbers that the model computes with are floats of at most 32 bits, and as many as the shape says.
func TestTensorsOfOtherTypesOrLengthsAreRefused(t *testing.T) {
	of := func(dtype dtypes.DType, raw string, dims ...int) storedTensor {
		return storedTensor{"f", dtype, dims, func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(raw)), nil
		}}
	}
	gone := storedTensor{"f", dtypes.Float32, []int{1}, func() (io.ReadCloser, error) {
		return nil, &fs.PathError{Op: "open", Path: "f", Err: fs.ErrNotExist}
	}}
	for _, c := range []struct {
		tensor storedTensor
		want   string
	}{
		{of(dtypes.Float32, "12345678", 2), ""}, {of(dtypes.Float16, "1234", 2), ""}, {of(dtypes.BFloat16, "1234", 1, 2), ""},
		{of(dtypes.Float32, "", 0), ""},
		{of(dtypes.Float64, "12345678", 1), `checkpoints: f: tensor "x": type Float64, want float32, float16 or bfloat16: ` +
			`save the model in one of these (model.float() in PyTorch)`},
		{of(dtypes.Int32, "1234", 1), `checkpoints: f: tensor "x": type Int32, want float32, float16 or bfloat16: ` +
			`save the model in one of these (model.float() in PyTorch)`},
		{of(dtypes.Float32, "123456789", 2), `checkpoints: f: tensor "x": it has more data than its shape requires`},
		{of(dtypes.Float32, "1234567", 2), `checkpoints: f: tensor "x": unexpected EOF`},
		{gone, `checkpoints: reading tensor "x" of f: open f: file does not exist`},
	} {
		var reader floatReader
		_, err := reader.read("x", c.tensor)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%v%v: %v, want %q", c.tensor.dtype, c.tensor.dims, err, c.want)
		}
	}
	if _, err := of(dtypes.Float32, "1234567", 2).readAsIs("x"); err == nil ||
		err.Error() != `checkpoints: f: tensor "x": unexpected EOF` {
		t.Errorf("as it is: %v", err)
	}
}

func TestAnNPZIsWrittenOnlyOfTypesThatNumPyHas(t *testing.T) {
	integers := asIs("n", tensors.FromValue([]int64{1, 2}))
	if err := writeNPZ(io.Discard, []outTensor{integers}); err == nil ||
		err.Error() != `tensor "n": NumPy has no type for Int64` {
		t.Error(err)
	}
	failing := outTensor{"x", shapes.Make(dtypes.Float32, 2), func(io.Writer) error { return io.ErrClosedPipe }}
	if err := writeNPZ(io.Discard, []outTensor{failing}); err == nil ||
		err.Error() != `tensor "x": io: read/write on closed pipe` {
		t.Error(err)
	}
	if err := writeSafetensors(io.Discard, "", []outTensor{failing}); err == nil ||
		err.Error() != `tensor "x": io: read/write on closed pipe` {
		t.Error(err)
	}
	// The whole header is a multiple of 64 bytes (NumPy's format.py: ARRAY_ALIGN), a shape of one number a tuple.
	for _, dims := range [][]int{{}, {7}, {3, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}} {
		header := string(gomlxtest.Must(npyHeaderOf(outTensor{shape: shapes.Make(dtypes.Float16, dims...)}))(t))
		var list []string
		for _, dim := range dims {
			list = append(list, fmt.Sprint(dim))
		}
		tuple := "(" + strings.Join(list, ", ") + map[bool]string{true: ","}[len(dims) == 1] + ")"
		if want := "{'descr': '<f2', 'fortran_order': False, 'shape': " + tuple + ", }"; len(header)%64 != 0 ||
			strings.TrimRight(header[10:], " \n") != want || int(header[8])+256*int(header[9]) != len(header)-10 ||
			len(header)-len(want)-10 > 64 || header[len(header)-1] != '\n' {
			t.Errorf("%v: %d bytes, %q, want %q", dims, len(header), header, want)
		}
	}
}

func TestANativeConfigNamesWhatIsWrong(t *testing.T) {
	model := string(gomlxtest.Must(json.Marshal(ownViT("learned")))(t))
	fit := `{"fit":"exact","size":[6,10],"resample":"bicubic"}`
	of := func(model, more string) string { return `{"model_type":"wepe","model":` + model + more + `}` }
	for text, want := range map[string]string{
		of(model, ""): "", of(model, `,"preprocess":`+fit): "", of(model, `,"params":[]`): "",
		`{"model_type":3}`: `model_type is 3, want "wepe" for these variables`,
		of(strings.Replace(model, `"heads":3`, `"heads":5`, 1), ""): "model: vit: width 48 does not divide into 5 heads",
		of(`3`, ""):              "model: json: cannot unmarshal number into Go value of type vit.Config",
		of(model, `,"params":3`): "params: json: cannot unmarshal number into Go value of type []checkpoints.param",
		of(model, `,"params":[{"path":"wepe_alpha_u","type":"x"}]`): `params: wepe_alpha_u: ` +
			`unknown type "x"`,
		of(model, `,"params":[{"path":"/seed","type":"int","value":1}]`): `params: "/seed" is not a ` +
			`hyperparameter of an encoding`,
		of(model, `,"preprocess":3`): "preprocess: json: cannot " +
			"unmarshal number into Go value of type preprocess.Settings",
		of(model, `,"preprocess":`+strings.Replace(fit, "exact", "x",
			1)): `preprocess: fit "x", want exact, shortest, cover, contain, patches or none`,
		of(model, `,"preprocess":{"fit":"patches","size":[6,10],"patch":2}`): `preprocess: fit "patches" ` +
			`for 3 channels: want another fit than "patches", and 3`,
		of(strings.Replace(model, `"channels":3`, `"channels":1`, 1),
			`,"preprocess":`+fit): `preprocess: fit "exact" for 1 channels: want another fit than "patches", and 3`,
	} {
		config := gomlxtest.Must(strictjson.ParseObject([]byte(text)))(t)
		_, err := describeNative(config)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A graph would draw missing variables at random.
func TestLogitsNeedEveryVariableAndImagesOfTheModel(t *testing.T) {
	c := ownViT("learned")
	store := stirred(t, c, nil)
	images := Noise(c, 2, 5)
	if _, err := forward(gomlxtest.Backend(), store, "/vit", c, images); err != nil {
		t.Error(err)
	}
	other := c
	other.ImageRows = 8
	if _, err := forward(gomlxtest.Backend(), store, "/vit", c, Noise(other, 2, 5)); err == nil ||
		!strings.HasPrefix(err.Error(), "checkpoints: logits: ") {
		t.Errorf("images of another size: %v", err)
	}
	for _, path := range []string{"/vit/head/biases", "/vit/norm/gain"} {
		if err := store.DeleteVariable(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := forward(gomlxtest.Backend(), store, "/vit", c, images); err == nil ||
		err.Error() != "checkpoints: the model lacks 2 of its variables" {
		t.Errorf("without two variables: %v", err)
	}
	m := &Imported{Config: c, Variables: map[string]*tensors.Tensor{}}
	if _, err := m.Logits(gomlxtest.Backend(), images); err == nil || !strings.Contains(err.Error(), positionPath) {
		t.Errorf("an import without its table: %v", err)
	}
	noise := Noise(vit.Config{ImageRows: 6, ImageCols: 10}, 2, 5)
	if shape := noise.Shape().Dimensions; !slices.Equal(shape, []int{2, 6, 10, 3}) {
		t.Errorf("noise is %v", shape)
	}
}

func TestADescriptionSaysWhatIsUnknown(t *testing.T) {
	c := ownViT("learned")
	two, none, unknown := c, c, c
	two.Registers = 1
	none.Pool, none.Classes = "mean", 0
	unknown.Heads, unknown.ImageRows = 0, 0
	for name, test := range map[string]struct {
		info Info
		want []string
		not  string
	}{
		"two prefix tokens": {Info{Format: "hf", Config: two}, []string{"positions  learned, 2 prefix tokens, a grid of " +
			"3x5 for images of 6x10",
			"options    registers\n", "head       7 classes\n"}, "step"},
		"no prefix": {Info{Format: "hf", Config: none}, []string{"positions  learned, 0 prefix tokens, ",
			"head       none\n"}, "options    r"},
		"unknown": {Info{Config: unknown}, []string{"format     unknown\n", "an unknown number of heads",
			"an unknown grid\n"}, "step"},
		"a graph": {Info{Format: formatONNX, Notes: []string{"x"}}, []string{"format     onnx\n", "note       x\n"},
			"tensors"},
		"a file": {Info{Tensors: []TensorInfo{{Shape: []int{}, DType: "bool"}}}, []string{"parameters 1 bool\n",
			"tensors    1\n"}, "model "},
	} {
		text := test.info.String()
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, text)
			}
		}
		if strings.Contains(text, test.not) {
			t.Errorf("%s: %q is in\n%s", name, test.not, text)
		}
	}
	if got := (TensorInfo{"a\n", "float32", []int{3, 5}}).String(); got != `a\n float32 [3 5]` {
		t.Errorf("%s", got)
	}
}
