// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/vit"
)

// asked returns the rows of some analyses.
func asked(t *testing.T, what string, images *data.InMemory, models ...Model) []Row {
	t.Helper()
	return compared(t, what, Same(images, nil), models...)
}

func comparing(t *testing.T, what string, images Images, models ...Model) *Comparison {
	t.Helper()
	return &Comparison{Backend: gomlxtest.Backend(), Models: models, Images: images, Pairs: 20,
		Analyses: gomlxtest.Must(Choose(strings.Split(what, ",")))(t)}
}

func compared(t *testing.T, what string, images Images, models ...Model) []Row {
	t.Helper()
	rows, page, err := comparing(t, what, images, models...).Run(t.Context())
	gomlxtest.NoError(t, cmp.Or(err, page.HTML(io.Discard)))
	return rows
}

func meanOfPatches(r *finetune.Recipe) { r.Model.Pool = "mean" }

// traced returns the values of some nodes of a model for all images, and last the logits.
func traced(t *testing.T, path string, images *data.InMemory, nodes func(*vit.Trace) []*Node) (c vit.Config,
	values [][]float32) {
	t.Helper()
	model := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), path))(t)
	defer model.Finalize()
	err := model.Activations(images, images.Len(), nodes, func(_ int, of [][]float32) error {
		for _, v := range of {
			values = append(values, slices.Clone(v))
		}
		return nil
	})
	gomlxtest.NoError(t, err)
	return model.Recipe.Model, values
}

func weightsOf(t *vit.Trace) (nodes []*Node) {
	for _, b := range t.Blocks {
		nodes = append(nodes, b.Weights)
	}
	return nodes
}

// Of vectors that are concatenated each is a half; hidden tokens have no weight.
func TestPrediction_IsOfTheTokensThatArePooled(t *testing.T) {
	for name, c := range map[string]struct {
		model  vit.Config
		prefix []float64
		patch  float64
	}{
		"class":                   {vit.Config{Pool: "class", Registers: 1}, []float64{1, 0}, 0},
		"mean":                    {vit.Config{Pool: "mean"}, nil, 1.0 / 15},
		"map":                     {vit.Config{Pool: "map"}, nil, 1.0 / 15},
		"mean with a class token": {vit.Config{Pool: "mean", ClassToken: true}, []float64{0}, 1.0 / 15},
		"mean of all":             {vit.Config{Pool: "mean", Registers: 1, PoolPrefix: true}, []float64{0.0625}, 0.0625},
		"class token and mean":    {vit.Config{Pool: "class+mean"}, []float64{0.5}, 0.5 / 15},
		"class token and mean, not of registers": {vit.Config{Pool: "class+mean", Registers: 2, PoolPrefix: true},
			[]float64{0.5, 0, 0}, 0.5 / 15},
		"class token and one register": {vit.Config{Pool: "class+register", Registers: 2}, []float64{0.5, 0.5, 0}, 0},
	} {
		s := subject{model: &finetune.Model{}, grid: grid{Rows: 3, Cols: 5, Prefix: len(c.prefix)}}
		s.model.Recipe.Model = c.model
		want := append(slices.Clone(c.prefix), slices.Repeat([]float64{c.patch}, 15)...)
		gomlxtest.NearAbs(t, name, s.prediction(), want, 1e-8)
	}
}

// Entropy, distance, range and weight by distance of each layer: prefix tokens have no position.
func TestAttention_RowsAreMeansOverPatchesOfAllImages(t *testing.T) {
	for name, m := range map[string]Model{
		"class token":                {Path: trained(t, "learned", 1, nil)},
		"no class token":             {Path: trained(t, "learned", 1, meanOfPatches)},
		"registers, DINOv2":          {Path: fixtures.Dir(t, "dinov2_reg_tiny")},
		"registers and rows, DINOv3": {Path: fixtures.Dir(t, "dinov3_vit_tiny")},
	} {
		t.Run(name, func(t *testing.T) {
			m.Name = "m"
			images := testImages(3)
			rows := asked(t, "entropy,distance,range,maps", images, m)
			c, values := traced(t, m.Path, images, weightsOf)
			tokens, prefix := c.Tokens(), c.Tokens()-c.Rows()*c.Cols()
			rings := grid{c.Rows(), c.Cols(), prefix}.rings()
			got := func(analysis, measure, at string) float64 { return value(t, rows, analysis, "m", measure, at) }
			for l := range c.Depth {
				var means [3]float64
				weights, heads := make([]float64, len(rings.Distances)), slices.Collect(slices.Chunk(values[l], tokens*tokens))
				for _, head := range heads { // of an image
					s := rings.spread(head, 0.9)
					for k, v := range []float64{s.Entropy, s.Distance, s.Range} {
						means[k] += v / float64(len(heads))
					}
					floats.AddScaled(weights, 1/float64(len(heads)), s.ByDistance)
				}
				layer := fmt.Sprintf("layer %d", l+1)
				gomlxtest.NearAbs(t, layer, []float64{got("entropy", "entropy, nats", layer),
					got("distance", "attention distance, patches", layer)}, means[:2], 1e-5)
				is.Near(t, layer, got("range", "effective range, patches", layer), means[2], 1e-5)
				is.Equal(t, "heads of images", len(heads), 3*c.Heads)
				if l > 0 {
					continue
				}
				for k, d := range rings.Distances {
					at := fmt.Sprintf("%s at %.6g", layer, d)
					is.Near(t, at, got("distance", "weight by distance", at), weights[k], 1e-6)
				}
				centre := c.Rows()/2*c.Cols() + c.Cols()/2 // of the first image, with the class token in the sums
				fromCentre, away := make([]float64, c.Rows()*c.Cols()), make([]float64, c.Rows()*c.Cols())
				for key := range fromCentre {
					away[key] = rings.distance(centre, key)
					for h := range c.Heads {
						fromCentre[key] += float64(heads[h][(prefix+centre)*tokens+prefix+key])
					}
				}
				gomlxtest.NearAbs(t, layer, []float64{got("distance", "correlation of attention weight and distance", layer),
					got("maps", "correlation of attention weight and distance, from the centre", "layer 1, first image")},
					[]float64{stat.Correlation(rings.Distances, weights, nil), stat.Correlation(away, fromCentre, nil)}, 1e-3)
			}
		})
	}
}

// CKA of both layers with the other model's, and t-SNE of 16 of 37 images, whose 240 patches are at most 250.
func TestAttention_RowsOfFeaturesAreOfThePatchesOfEachModel(t *testing.T) {
	images := testImages(37)
	paths := []string{trained(t, "learned", 1, nil), trained(t, "learned", 2, nil)}
	rows := asked(t, "cka,tsne", images, Model{Name: "a", Path: paths[0]}, Model{Name: "b", Path: paths[1]})
	var pooled [2][2][]float64 // [layer][model]
	chosen := map[int]bool{}
	for k := range 16 {
		chosen[k*37/16] = true
	}
	for m, path := range paths {
		c, values := traced(t, path, images, func(t *vit.Trace) []*Node {
			return []*Node{t.Blocks[0].Output, t.Blocks[1].Output}
		})
		var patches, row, col []float64
		var quadrants []int
		for l := range 2 {
			for i, image := range slices.Collect(slices.Chunk(values[l], c.Tokens()*c.Width)) {
				for k := range c.Width {
					mean := 0.0
					for p := c.Prefix(); p < c.Tokens(); p++ {
						mean += float64(image[p*c.Width+k]) / 15
					}
					pooled[l][m] = append(pooled[l][m], mean)
				}
				if l == 0 || !chosen[i] {
					continue
				}
				patches = append(patches, wide(image[c.Prefix()*c.Width:])...)
				for p := range 15 {
					row, col = append(row, float64(p/5)), append(col, float64(p%5))
					quadrants = append(quadrants, map[bool]int{p/5 > 1: 2}[true]+map[bool]int{p%5 > 2: 1}[true])
				}
			}
		}
		_, r2 := numeric.NearestR2(patches, [][]float64{row, col}, 5)
		embedded, _ := embed(patches, 240, 0)
		got := func(measure string) float64 { return value(t, rows, "tsne", string("ab"[m]), measure, "") }
		is.Near(t, "neighbours", got("R² of row and column, 5 nearest neighbours"), r2, 1e-6)
		silhouette := func(points []float64) float64 { return stat.Mean(numeric.Silhouettes(points, quadrants), nil) }
		is.Near(t, "features", got("silhouette by quadrant, features"), silhouette(patches), 1e-6)
		is.Near(t, "embedded", got("silhouette by quadrant, t-SNE"), silhouette(embedded), 0.05) // float32 noise grows
	}
	for l := range 2 {
		is.Near(t, "CKA", value(t, rows, "cka", "b", "unbiased linear CKA with the first model", fmt.Sprint("layer ", l+1)),
			unbiasedCKA(pooled[l][0], pooled[l][1], 37), 1e-4)
	}
}

// The other layers of a deeper model have nothing to compare with. The mean over seeds of the first column does not
// contain the likeness of the first model to itself. If the first cannot be measured, no other takes its place.
func TestCKA_ComparesLayersWithTheFirstModel(t *testing.T) {
	gomlxtest.OnGo(t)
	flat := trained(t, "learned", 1, func(r *finetune.Recipe) { r.Model.Depth = 1 })
	deep := trained(t, "learned", 1, func(r *finetune.Recipe) { r.Model.Depth = 3 })
	rows := asked(t, "cka", testImages(23), Model{Name: "flat", Path: flat}, Model{Name: "deep", Path: deep})
	if got := rowsOf(rows, "cka", "deep"); len(got) != 1 || got[0].At != "layer 1" || got[0].Value > 0.9999 {
		t.Errorf("%+v, want layer 1 alone, and unlike", got)
	}
	is.Near(t, "like itself", value(t, rows, "cka", "flat", "unbiased linear CKA with the first model", "layer 1"), 1,
		1e-6)
	rows = asked(t, "cka", testImages(23), Model{Name: "m", Path: flat}, Model{Name: "m", Path: deep})
	if got := rowsOf(rows, "cka", "m"); len(got) != 1 || got[0].Value > 0.9999 {
		t.Errorf("%+v of two seeds", got)
	}
	images := Same(testImages(23), func(int) []bool {
		return append(make([]bool, 200), slices.Repeat([]bool{true}, 40)...)
	})
	rows, _, _ = comparing(t, "cka,masks", images, Model{Name: "gone", Path: t.TempDir()}, Model{Name: "flat", Path: flat},
		Model{Name: "deep", Path: deep}).Run(t.Context())
	for _, name := range []string{"flat", "deep"} {
		applies(t, rows, "cka", name, false)
		is.Equal(t, "mean and deviation of four measures", len(rowsOf(rows, "masks", name)), 8)
	}
}

// 300 images, more than an analysis of attention takes: it takes image k·300/256 for each k.
func TestImages_AreSpreadOverTheDatasetAndCounted(t *testing.T) {
	gomlxtest.OnGo(t)
	all, mask := testImages(300), func(i int) []bool {
		return append(slices.Repeat([]bool{true}, 40+i%150), make([]bool, 12*20-40-i%150)...)
	}
	var spread []int
	for k := range 256 {
		spread = append(spread, k*300/256)
	}
	const what = "decay,probe,maps,rollout,entropy,depth,tsne,masks,separation"
	model := Model{Name: "m", Path: trained(t, "learned", 1, nil)}
	rows := compared(t, what, Same(all, mask), model)
	want := compared(t, what, Same(all.Subset(spread), func(i int) []bool { return mask(spread[i]) }), model)
	counts := map[string]int{"decay": 0, "maps": 1, "tsne": 16, "masks": 50, "separation": 300}
	for i, row := range rows {
		count, other := counts[row.Analysis]
		if !other {
			count = 256
		}
		is.Equal(t, "images of "+row.Analysis, row.Count, count)
		if row.Analysis != "separation" {
			is.Near(t, row.Measure, float64(row.Value), float64(want[i].Value), 1e-6)
		}
	}
	is.Equal(t, "order of images", testFirst([]int{2, 3, 5, 7, 11, 13, 17}, 2), []int{2, 7, 3, 5, 11, 13, 17})
}

// The overlap of the rollout's largest pixels with the masks of all images but two, which have no object. A mask of
// the whole image has no correlation: the others' mean is over 10 images.
func TestMasks_RowsAreOfTheThresholdsOfTheirNames(t *testing.T) {
	gomlxtest.OnGo(t)
	const n = 13
	mask := func(i int) []bool {
		if i == 4 {
			return nil
		}
		m := make([]bool, 12*20)
		for k := range m {
			m[k] = k%20 >= i && k/20 > 3 && i != 8 || i == 9
		}
		return m
	}
	c := comparing(t, "masks,rollout", Same(testImages(n), mask), Model{Name: "a", Path: trained(t, "learned", 1, nil)},
		Model{Name: "b", Path: trained(t, "learned", 2, nil)})
	rows, _, err := c.Run(t.Context())
	gomlxtest.NoError(t, err)
	all := map[string]*[2][]float64{"IoU at half of the range": {}, "IoU at the median": {},
		"IoU at the 90th percentile": {}, "point-biserial correlation": {}}
	for m, model := range c.Models {
		s := gomlxtest.Must(c.open(t.Context(), model))(t)
		v := gomlxtest.Must(s.attended())(t)
		s.model.Finalize()
		contrast := 0.0
		for i, row := range v.rollout {
			mean, deviation := stat.MeanStdDev(row, nil)
			contrast += deviation / mean / n
			object := mask(i)
			if object == nil || i == 8 {
				continue
			}
			add := func(name string, value float64) { all[name][m] = append(all[name][m], value) }
			pixels := enlarge(row, 3, 5, 12, 20)
			sorted := slices.Sorted(slices.Values(pixels)) // of 240 values, 0.9·239 = 215.1
			add("IoU at half of the range", iou(object, pixels, (sorted[0]+sorted[239])/2))
			add("IoU at the median", iou(object, pixels, (sorted[119]+sorted[120])/2))
			add("IoU at the 90th percentile", iou(object, pixels, sorted[215]+0.1*(sorted[216]-sorted[215])))
			if i != 9 {
				add("point-biserial correlation", stat.Correlation(indicator(object), pixels, nil))
			}
		}
		is.Near(t, "contrast", value(t, rows, "rollout", model.Name, "coefficient of variation of the map", ""), contrast,
			1e-6)
	}
	for name, of := range all {
		statistic, p := pairedT(of[1], of[0])
		count := map[bool]int{true: n - 3, false: n - 2}[name == "point-biserial correlation"]
		if len(of[0]) != count || !(math.Abs(statistic) > 1e-3) {
			t.Errorf("%s: t = %g of %d images", name, statistic, len(of[0]))
		}
		for _, r := range rows {
			if r.Measure == name && r.Count != count {
				t.Errorf("%s, %s: of %d images, want %d", name, r.At, r.Count, count)
			}
		}
		for m, model := range []string{"a", "b"} {
			mean, deviation := stat.MeanStdDev(of[m], nil)
			gomlxtest.NearAbs(t, model+": "+name, []float64{value(t, rows, "masks", model, name, "mean"),
				value(t, rows, "masks", model, name, "standard deviation")}, []float64{mean, deviation}, 1e-6)
		}
		is.Near(t, name, value(t, rows, "masks", "b", name, "p of the paired t-test against the first model"), p, 1e-4)
	}
}

// The mean over heads of the last layer's weights, by hand, of more images than one batch has. Bins of fewer than ten
// images have no error rate.
func TestSeparation_IsOfTheStrongestPatchesAndTheErrorOfEachImage(t *testing.T) {
	const n = 150
	images := testImages(n)
	for pool, change := range map[string]func(*finetune.Recipe){"class": nil, "mean": meanOfPatches} {
		path := trained(t, "learned", 1, change)
		c, values := traced(t, path, images, func(t *vit.Trace) []*Node { return []*Node{t.Blocks[1].Weights} })
		tokens, prefix, patches := c.Tokens(), c.Prefix(), c.Rows()*c.Cols()
		var separations, wrong []float64
		for i := range n {
			weights, attended := values[0][i*c.Heads*tokens*tokens:], make([]float64, patches)
			for h := range c.Heads {
				for query := range tokens {
					if pool == "mean" && query < prefix || pool == "class" && query > 0 {
						continue
					}
					for k := range patches {
						attended[k] += float64(weights[(h*tokens+query)*tokens+prefix+k])
					}
				}
			}
			logits := values[1][i*c.Classes : (i+1)*c.Classes]
			separations = append(separations, grid{Rows: 3, Cols: 5}.separation(strongestPatches(attended, 5)))
			missed := slices.Index(logits, slices.Max(logits)) != int(images.Labels[i])
			wrong = append(wrong, map[bool]float64{true: 1}[missed])
		}
		rows := asked(t, "separation", images, Model{Name: "m", Path: path})
		counted, failed, few := 0.0, 0.0, 0
		var centres, rates []float64
		for _, r := range rows {
			var low, high float64
			if r.Measure != "images" || r.Value == 0 {
				continue
			}
			rate := value(t, rows, "separation", "m", "error rate", r.At)
			counted, failed = counted+float64(r.Value), failed+float64(r.Value)*rate
			if _, err := fmt.Sscanf(r.At, "%f to %f patches", &low, &high); err != nil || r.Value < 10 {
				few++
			} else {
				centres, rates = append(centres, (low+high)/2), append(rates, rate)
			}
		}
		got := func(measure string) float64 { return value(t, rows, "separation", "m", measure, "") }
		gomlxtest.NearAbs(t, pool, []float64{counted, failed, got("mean separation, patches"),
			got("correlation of separation and error, images")}, []float64{n, stat.Mean(wrong, nil) * n,
			stat.Mean(separations, nil), stat.Correlation(separations, wrong, nil)}, 1e-9)
		is.Near(t, pool, got("correlation of separation and error rate, bins of at least 10 images"),
			stat.Correlation(centres, rates, nil), 0.02) // the bounds of bins are rounded
		if few == 0 || len(rates) < 3 {
			t.Errorf("%d bins, and %d of few images", len(rates), few)
		}
	}
	tie := trained(t, "learned", 1, func(r *finetune.Recipe) { r.HeadZeroInit, r.Freeze = true, "head" })
	for _, r := range asked(t, "separation", testImages(23), Model{Name: "tie", Path: tie}) {
		if r.Measure == "error rate" && !math.IsNaN(float64(r.Value)) && r.Value != 1 {
			t.Errorf("classes that tie: error rate %g at %s, want 1", float64(r.Value), r.At)
		}
	}
}

// The labels are compared with the model's classes by name.
func TestPredicts_NeedsTheClassesOfTheModel(t *testing.T) {
	images, permuted := testImages(30), testImages(30)
	permuted.Classes = strings.Fields("c a b")
	for i, label := range images.Labels {
		permuted.Labels[i] = (label + 1) % 3
	}
	model := Model{Name: "m", Path: trained(t, "learned", 1, nil)}
	of := func(set *data.InMemory) string { return fmt.Sprint(asked(t, "separation,shuffle", set, model)) } // with NaN
	is.Equal(t, "of permuted classes", of(permuted), of(images))
	for _, classes := range []string{"a b x", "a"} {
		images.Classes = strings.Fields(classes)
		clear(images.Labels)
		for _, r := range asked(t, "separation,shuffle", images, model) {
			if r.Note == "" {
				t.Errorf("classes %s: %+v", classes, r)
			}
		}
	}
}

// One image at least, and two for the probe; bounds are 2 GiB weights, 256 MiB of a batch's weights and 64 MiB patches.
func TestSubject_NumberOfImagesFollowsFromTheSizeOfTheModel(t *testing.T) {
	for name, c := range map[string]struct {
		side, width, depth, heads, images   int
		batch, attended, probed, separation int
	}{
		"tiny":                      {64, 12, 2, 3, 1000, 32, 256, 256, 1000},     // 17² weights of a head
		"ViT-B/16":                  {224, 768, 12, 12, 1000, 12, 256, 111, 1000}, // 197²
		"1024 pixels":               {1024, 768, 12, 12, 1000, 1, 1, 5, 10},       // 4097²
		"half of them":              {1024, 768, 1, 6, 1000, 1, 21, 5, 21},        // in one layer
		"4096 pixels":               {4096, 768, 12, 12, 1000, 1, 1, 2, 1},        // 65537²
		"few images":                {224, 768, 12, 12, 3, 3, 3, 3, 3},            // as there are
		"deep":                      {224, 768, 48, 16, 1000, 2, 72, 111, 1000},
		"a thin one of many tokens": {2048, 4, 1, 1, 1000, 1, 7, 256, 7}, // 16385²
	} {
		config := gomlxtest.Resolved(vit.Config{ImageRows: c.side, ImageCols: c.side, PatchSize: 16, Width: c.width,
			Depth: c.depth, Heads: c.heads, Classes: 3, Position: "learned"})
		s := &subject{model: &finetune.Model{Recipe: finetune.Recipe{Model: config}},
			Images: &data.InMemory{Info: data.Info{Labels: make([]int32, c.images)}},
			grid:   grid{Rows: config.Rows(), Cols: config.Cols(), Prefix: config.Prefix()}}
		is.Equal(t, name, [4]int{s.batch(c.images), s.attendedImages(), s.probedImages(), s.separatedImages()},
			[4]int{c.batch, c.attended, c.probed, c.separation})
	}
}

// CKA needs 8 images, t-SNE ten patches, the probe two images and two patches, the regression more patches than
// features, masks an object. Vectors of one value have a single principal axis.
func TestComparison_FewestImagesAndPatches(t *testing.T) {
	gomlxtest.OnGo(t)
	small := func(rows, cols, width int) Model {
		return Model{Name: "m", Path: trained(t, "learned", 1, func(r *finetune.Recipe) {
			if r.Augment.Size = [2]int{4 * rows, 4 * cols}; width == 1 {
				r.Model.Width, r.Model.Heads, r.Model.Depth = 1, 1, 1
			}
		})}
	}
	ten, nine, one, narrow := small(2, 5, 12), small(3, 3, 12), small(1, 1, 12), small(3, 5, 1)
	for _, c := range []struct {
		model  Model
		images int
		does   string // and
		refuse string
	}{
		{ten, 8, "cka,tsne", "masks"}, {ten, 7, "tsne", "cka"}, {nine, 1, "distance", "tsne,probe,depth"},
		{one, 1, "entropy,range,distance", "similarity,probe,tsne,cka,depth"}, {narrow, 2, "similarity,probe", "cka"},
	} {
		rows := asked(t, c.does+","+c.refuse, testImages(c.images), c.model)
		for _, name := range strings.Split(c.does+","+c.refuse, ",") {
			applies(t, rows, name, "m", !strings.Contains(c.refuse, name))
		}
		if c.model == one {
			for figure, measure := range map[string]string{"entropy": "entropy, nats", "range": "effective range, patches",
				"distance": "attention distance, patches"} {
				is.Equal(t, figure+" of one patch", value(t, rows, figure, "m", measure, "layer 2"), 0)
			}
		}
	}
}

// Google's files do not say their grid.
func TestModel_ImportOptionsAreThoseOfFilesWithoutMetadata(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		google := Model{Name: "google", Path: fixtures.Dir(t, "jax_vit_npz")}
		comparison := &Comparison{Backend: gomlxtest.Backend(), Images: Same(testImages(2), nil)}
		_, err := comparison.open(t.Context(), google)
		is.Equal(t, "a grid that no file says is opened", err == nil, false)
		google.Import = checkpoints.Hints{AssumeSquare: true}
		rows := asked(t, "resolution,entropy", testImages(2), google)
		applies(t, rows, "entropy", "google", true)
		is.Equal(t, "rows of resolution", len(rowsOf(rows, "resolution", "google")) > 0, true)
	})
}
