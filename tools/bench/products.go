// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"k8s.io/klog/v2"

	"github.com/wepe-go/wepe/report"
)

// product is a shape of matrix product in a program.
type product struct {
	text   string // of its operands
	calls  float64
	flops  float64 // of one
	exec   *Exec
	inputs []any
	repeat int // in exec
	took   []float64
}

// largestProgram makes a call and returns the longest of the StableHLO programs that it compiles.
func largestProgram(call func() error) (program string, err error) {
	var log bytes.Buffer
	defer klog.CaptureState().Restore()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for _, f := range [][2]string{{"v", "2"}, {"logtostderr", "false"}, {"stderrthreshold", "FATAL"}} {
		if err := flags.Set(f[0], f[1]); err != nil {
			return "", err
		}
	}
	klog.SetOutput(&log)
	err = call()
	klog.Flush()
	for _, text := range strings.Split(log.String(), "\nmodule @") {
		text, _, _ = strings.Cut(text, "\n}\n")
		if len(text) > len(program) && strings.Contains(text, "dot_general") {
			program = text
		}
	}
	return program, err
}

var (
	dot = regexp.MustCompile(`(?s)"stablehlo\.dot_general"\(.*?\) \{(.*?)\} : ` +
		`\(tensor<([0-9x]+)xf32>, tensor<([0-9x]+)xf32>\) -> tensor<([0-9x]+)xf32>`)
	axes = regexp.MustCompile(`(lhs|rhs)_(batching|contracting)_dimensions = \[([0-9, ]*)\]`)
)

// productsOf returns the shapes of products in a program, in decreasing order of arithmetic.
func productsOf(b compute.Backend, program string) (products []*product, err error) {
	found := map[string]*product{}
	for _, words := range dot.FindAllStringSubmatch(live(program), -1) {
		contracted := map[string][]int{}
		for _, a := range axes.FindAllStringSubmatch(words[1], -1) {
			contracted[a[1]+" "+a[2]] = ints(a[3], ",")
		}
		key := fmt.Sprintf("[%s] over %v · [%s] over %v", words[2], contracted["lhs contracting"], words[3],
			contracted["rhs contracting"])
		if p := found[key]; p != nil {
			p.calls++
			continue
		}
		p := &product{text: strings.ReplaceAll(key, "x", ", "), calls: 1, flops: 2}
		left, right := ints(words[2], "x"), ints(words[3], "x")
		for _, n := range ints(words[4], "x") {
			p.flops *= float64(n)
		}
		for _, axis := range contracted["lhs contracting"] {
			p.flops *= float64(left[axis])
		}
		p.repeat = min(16, max(1, int(1e8/p.flops))) // so that the overhead of starting it is small
		p.exec, err = NewExec(b, func(x, y *Node) *Node {
			out := ScalarZero(x.Graph(), dtypes.Float32)
			for i := range p.repeat { // with different operands, or XLA would merge them
				z := DotGeneral(x, contracted["lhs contracting"], contracted["lhs batching"],
					OptimizationBarrier(AddScalar(y, float64(i))), contracted["rhs contracting"], contracted["rhs batching"])
				out = Add(out, Reshape(SliceAxis(Reshape(OptimizationBarrier(z), -1), 0, AxisRange(0, 1))))
			}
			return out
		})
		if err != nil {
			return nil, err
		}
		matrix := func(dims []int) any { return tensors.FromShape(shapes.Make(dtypes.Float32, dims...)) }
		p.inputs = []any{matrix(left), matrix(right)}
		found[key], products = p, append(products, p)
	}
	slices.SortStableFunc(products, func(a, b *product) int { return cmp.Compare(b.calls*b.flops, a.calls*a.flops) })
	return products, nil
}

var (
	definition = regexp.MustCompile(`^    %(\w+) = `)
	value      = regexp.MustCompile(`%\w+`)
)

// live removes the statements of a program on which no result depends: XLA does not compute them.
func live(program string) string {
	lines := strings.Split(program, "\n")
	needed := map[string]bool{}
	for i := len(lines) - 1; i >= 0; i-- {
		name := definition.FindStringSubmatch(lines[i])
		if name != nil && !needed["%"+name[1]] && strings.Contains(lines[i], "dot_general") {
			lines[i] = strings.Replace(lines[i], "dot_general", "unused", 1)
			continue
		}
		if name == nil || needed["%"+name[1]] {
			for _, used := range value.FindAllString(definition.ReplaceAllString(lines[i], ""), -1) {
				needed[used] = true
			}
		}
	}
	return strings.Join(lines, "\n")
}

func ints(text, separator string) (numbers []int) {
	for word := range strings.SplitSeq(text, separator) {
		if n, err := strconv.Atoi(strings.TrimSpace(word)); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// time returns the seconds of one product.
func (p *product) time() (float64, error) {
	began := time.Now()
	outputs, err := p.exec.Call(p.inputs...)
	if err != nil {
		return 0, err
	}
	_ = tensors.ToScalar[float32](outputs[0])
	return time.Since(began).Seconds() / float64(p.repeat), nil
}

// productTable lists the shapes of products and the rate of each alone.
func productTable(took float64, products []*product) report.Table {
	t := report.Table{Header: []string{"product", "number", "GFLOP", "ms alone", "GFLOP/s", "share of a call"},
		Numeric: []bool{false, true, true, true, true, true}}
	for _, p := range products {
		seconds := p.calls * median(p.took)
		t.Rows = append(t.Rows, []string{p.text, fmt.Sprint(p.calls), fmt.Sprintf("%.2f", p.calls*p.flops/1e9),
			fmt.Sprintf("%.2f", 1000*seconds), fmt.Sprintf("%.0f", p.calls*p.flops/seconds/1e9),
			fmt.Sprintf("%.1f %%", 100*seconds/took)})
	}
	return t
}

var operation = regexp.MustCompile(`(?m)^  (?:ROOT )?%?[\w.-]+ = .*? ([a-z][a-z0-9-]*)\(`)

// printOperations counts the separately launched operations in the largest program that XLA compiled.
func printOperations(dump string) error {
	files, err := filepath.Glob(filepath.Join(dump, "*after_optimizations.txt"))
	if err != nil || len(files) == 0 {
		return err // for other backends
	}
	var text string
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if len(content) > len(text) {
			text = string(content)
		}
	}
	if at := strings.Index(text, "\nENTRY "); at >= 0 {
		text = text[at:]
	}
	counts := map[string]int{}
	for _, words := range operation.FindAllStringSubmatch(text, -1) {
		counts[words[1]]++
	}
	table := report.Table{Header: []string{"operation in XLA's compiled program", "number"}, Numeric: []bool{false, true}}
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	for _, name := range names {
		if name != "parameter" && name != "get-tuple-element" && name != "bitcast" && name != "constant" && name != "tuple" {
			table.Rows = append(table.Rows, []string{name, strconv.Itoa(counts[name])})
		}
	}
	fmt.Println(table.Text())
	return nil
}
