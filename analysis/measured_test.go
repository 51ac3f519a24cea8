// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/study"
)

// The expected values come from the position table in the files.
func TestDirectionsAreThoseOfTheTableOfPositions(t *testing.T) {
	dir := trained(t, "learned", 1, nil)
	imported := gomlxtest.Must(checkpoints.Import(dir, checkpoints.ImportOptions{}))(t)
	const width, rows = 12, 3 * 5
	table := gomlxtest.Values(t, imported.Variables["position/embedding"])[width:] // less the class token's
	var squares, total float64
	x := mat.NewDense(rows, width, nil)
	for k, v := range table {
		squares += v * v
		x.Set(k/width, k%width, v)
	}
	for j := range width {
		for i := range rows {
			x.Set(i, j, x.At(i, j)-mat.Sum(mat.NewDense(rows, 1, mat.Col(nil, j, mat.NewDense(rows, width, table))))/rows)
		}
	}
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDNone) {
		t.Fatal("no singular values")
	}
	values := svd.Values(nil)
	for _, v := range values {
		total += v * v
	}
	holding := func(share float64) (axes float64) {
		sum := 0.0
		for _, v := range values {
			if sum >= share*total {
				break
			}
			sum += v * v
			axes++
		}
		return axes
	}
	got := asked(t, "directions", testImages(2), Model{Name: "a", Path: dir})
	for measure, want := range map[[2]string]float64{
		{"norm, root mean square", ""}:                math.Sqrt(squares / rows),
		{"principal components that explain", "90 %"}: holding(0.9), {"principal components that explain",
			"99 %"}: holding(0.99),
	} {
		if v := value(t, got, "directions", "a", measure[0], measure[1]); !(math.Abs(v-want) <= 1e-6*want) {
			t.Errorf("%s %s: %g, want %g", measure[0], measure[1], v, want)
		}
	}
}

// sincos2d of width n has a sine and a cosine of row and column for each of n/4 frequencies.
func TestBasesHaveTheFeaturesOfTheirNames(t *testing.T) {
	names, features := bases(grid{Rows: 3, Cols: 5})
	for i, name := range names {
		want := gomlxtest.Must(strconv.Atoi(regexp.MustCompile(`^\d+|\d+$`).FindString(name)))(t)
		if len(features[i]) != 15*want {
			t.Errorf("%s: %d values for 15 patches", name, len(features[i]))
		}
	}
	// The half cell has half the distances from its corner, so its 2z is the whole cell's z.
	whole, half := features[0], features[3]
	for k := range 15 {
		gomlxtest.NearAbs(t, "2z", half[12*k+6:12*k+12], whole[6*k:6*k+6], 1e-12)
	}
}

// The clock is a counter: with one round the ratio of two variants is the ratio of their rates.
func TestCostIsOfTheCallsThatAreTimed(t *testing.T) {
	gomlxtest.OnGo(t)
	ticks, log := 0.0, new(bytes.Buffer)
	c := Cost{Backend: gomlxtest.Backend(), Sizes: []string{"Ti/16"}, Sides: []int{32}, Forward: 3, Step: 5, Rounds: 1,
		Variants: study.Each("none", "learned"), Logger: slog.New(slog.NewTextHandler(log, nil)),
		CPUTime: func() float64 { ticks++; return ticks * ticks },
		Memory: func(_ context.Context, size string, side int, v study.Variant) (float64, error) {
			return float64(side*len(size)*len(v.Label)) * (1 << 20), nil // 32·5·4 and 32·5·7
		}}
	rows := gomlxtest.Must(c.Run(t.Context()))(t)
	at := func(model, measure string) float64 { return value(t, rows, "cost", model, measure, "Ti/16, 32") }
	for _, call := range []struct {
		name   string
		images float64
	}{{"inference", 3}, {"training", 5}} {
		a, b := at("none", call.name+", images/CPU second"), at("learned", call.name+", images/CPU second")
		quotient := at("learned", call.name+", time × none")
		if own := at("none", call.name+", time × none"); own != 1 || !(math.Abs(quotient-a/b) <= 1e-12) || a == b {
			t.Errorf("%s: %g and %g images/s, quotients %g and %g", call.name, a, b, own, quotient)
		}
		// After 8 ticks for the compiling calls, the other four last from 9² to 10², from 11² to 12², …
		for _, rate := range []float64{a, b} {
			if took := call.images / rate; !slices.Contains([]float64{19, 23, 27, 31}, math.Round(took*1e9)/1e9) {
				t.Errorf("%s takes %g", call.name, took)
			}
		}
	}
	if a, b := at("learned", "peak memory of a process, MiB"), at("learned", "peak memory × none"); a != 1120 ||
		b != 1.75 {
		t.Errorf("memory %g MiB, × %g", a, b)
	}
	if strings.Contains(log.String(), "round") {
		t.Errorf("logged %q", log)
	}
	unknown := c
	unknown.Sizes = []string{"Ti/16", "Z/16"}
	if rows, err := unknown.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Z/16, 32: ") {
		t.Errorf("an unknown size: %d rows, %v", len(rows), err)
	}
	log.Reset()
	c.Memory, c.Variants, c.Rounds = nil, study.Each("none"), 10
	if got := gomlxtest.Must(c.Run(t.Context()))(t); len(got) != 6 {
		t.Errorf("without memory %d rows, want 2 of the model and 2 of each call: %+v", len(got), got)
	}
	if extra := at("learned", "parameters") - at("none", "parameters"); extra != (4+1)*192 {
		t.Errorf("a table of 4 patches and a class token has %g parameters", extra)
	}
	if strings.Count(log.String(), "round") != 1 || !strings.Contains(log.String(), "Ti/16, 32: round 10 of 10") {
		t.Errorf("logged %q", log)
	}
}

// t-SNE uses whole images: the first 16 of 23 images, whose 240 patches are at most 250, or ten of 25 patches.
func TestTSNEHasThePatchesOfWholeImages(t *testing.T) {
	gomlxtest.OnGo(t)
	for size, points := range map[[2]int]int{{12, 20}: 240, {20, 20}: 250} {
		c := Comparison{Backend: gomlxtest.Backend(), Images: testImages(23), Logger: slog.New(slog.DiscardHandler)}
		path := trained(t, "learned", 1, func(r *finetune.Recipe) { r.Augment.Size = size })
		s := gomlxtest.Must(c.open(t.Context(), Model{Name: "a", Path: path}))(t)
		v := gomlxtest.Must(s.attended())(t)
		if v.points != points || len(v.last) != points*12 || v.images != 23 || len(v.rollout) != 23 || len(v.class) != 23 {
			t.Errorf("%d points of %d values, %d images, maps of %d and %d", v.points, len(v.last), v.images, len(v.rollout),
				len(v.class))
		}
		if again := gomlxtest.Must(s.attended())(t); again != v {
			t.Error("attention is computed twice")
		}
		rows := asked(t, "rollout,tsne", testImages(23), Model{Name: "a", Path: path})
		contrast := 0.0
		for _, row := range v.rollout {
			sum, squares := 0.0, 0.0
			for _, w := range row {
				sum, squares = sum+w, squares+w*w
			}
			n := float64(len(row))
			contrast += math.Sqrt((squares-sum*sum/n)/(n-1)) / (sum / n) / float64(len(v.rollout))
		}
		var quadrants []int
		for k := range points {
			row, col := k/5%s.grid.Rows, k%5
			quadrants = append(quadrants, map[bool]int{row*2 >= s.grid.Rows: 2}[true]+map[bool]int{col*2 >= 5: 1}[true])
		}
		embedded, _ := embed(v.last, points, 0)
		gomlxtest.NearAbs(t, fmt.Sprint(size, ": contrast, silhouettes of features and t-SNE"), []float64{
			value(t, rows, "rollout", "a", "coefficient of variation of the map", ""),
			value(t, rows, "tsne", "a", "silhouette by quadrant, features", ""),
			value(t, rows, "tsne", "a", "silhouette by quadrant, t-SNE", ""),
		}, []float64{contrast, stat.Mean(numeric.Silhouettes(v.last, quadrants), nil),
			stat.Mean(numeric.Silhouettes(embedded, quadrants), nil)}, 1e-9)
	}
}
