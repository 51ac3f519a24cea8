// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/wepe/internal/elliptic"
)

// Encoder adds one vector to each token; [Config.Build], [Config.Surrogate] and [Config.Hybrid] return it. Patches are
// numbered row by row, after the prefix. Methods with a graph argument build new nodes, independent of the batch.
//
// PreEncode(x, positionIndices, seqAxis) returns x plus the encoding, in x's shape and dtype. x is [..., seq, ...,
// width] with the sequence at seqAxis and the width last. With positionIndices nil, or an Iota over all positions, the
// sequence is the prefix and the whole grid. Otherwise positionIndices, integers in [0, prefix + rows·cols), is the
// position of each token: [seq], or one row per batch element, shaped as the axes of x up to seqAxis. Subsets and
// permutations of the patches thus keep their positions.
//
// Only this package implements it: Hybrid reads the grid of an encoder by an unexported method.
type Encoder interface {
	pos.Encoder
	pos.PreEncoder
	Field

	// Encode returns the vectors that PreEncode adds, float32 [prefix + rows·cols, width]. Config.Fold of package vit
	// stores this table in a ViT with learned positions.
	Encode(g *Graph) *Node

	// Start moves the last layer of the encoding in a Hybrid as [ParamStart] says, mathematics.md (9.3) and (9.4): call it
	// before training, after loading the pretrained rows. The backend evaluates the encoding; the rest is float64 on the
	// host. Other encoders stay as they are.
	Start(backend compute.Backend) error

	// Warning returns one line that names two patches that float32 cannot distinguish at the initial values, or the error
	// of features from a look-up table above 1e-5, on the sphere 1e-3; it is empty if there is neither.
	Warning() string

	layout() grid
}

// Field computes the features of patches.
type Field interface {
	// Features returns tanh(α_scale·f) for f = Re ℘, Im ℘, Re ℘′, Im ℘′: [rows·cols, 4], or [rows·cols, 2] without
	// derivative; on the sphere S(α_scale·w) and S(α_scale·w′), [rows·cols, 6] or [rows·cols, 3], see [Sphere]; times the
	// number of scales and of harmonics; of a surrogate its compressed channels.
	Features(g *Graph) *Node

	// FeatureNames describes each column of Features, in ASCII except for the prime: "Re P(z)", on the sphere
	// "S(P(z)) 1".
	FeatureNames() []string

	// Scalars returns the effective values of ω3′, α_scale and β_pos as "omega3", "alpha_scale" and "beta_pos", and Re ω3
	// of an oblique lattice as "omega3_re", for training logs; of a surrogate "omega3", "beta", "gamma", "strength" and
	// "scale"; of a Hybrid also λ, "lambda".
	Scalars() (map[string]float64, error)
}

// encoder adds a learned vector to every prefix token and the projected Weierstrass features to every patch.
type encoder struct {
	lattice
	betaPos    *model.Variable // scalar
	table      hostTable       // of evaluation by a table, with its stored values
	tableError float64         // bound on the error of features from it, when it was opened
	nodes      *model.Variable // [nodes, nodes, 4 or 6]
	prefix     *model.Variable // [prefix, width], nil without prefix tokens
	projection projection
}

// Build creates the variables and returns the encoder: a learned vector for every prefix token, the projected
// Weierstrass features for every patch. On a grid coarser than the training grid ([ParamRows], [ParamCols]) a patch
// gets the mean over the training patches that it covers, mathematics.md (6.11). It panics with ConfigError on invalid
// settings. Call it once per scope and graph.
//
// The encoder's Warning method names patches that float32 cannot distinguish.
func (c *Config) Build() Encoder { return newEncoder(c.resolve()) }

func newEncoder(c Config) *encoder {
	if c.projection == mlp && c.width%2 != 0 {
		refuse(ParamProjection, "%s = %q halves the width, which is odd: %d", ParamProjection, mlp, c.width)
	}
	scope := c.scope.In("%s", c.formScope(scopeName))
	e := &encoder{
		lattice:    newLattice(c, scope),
		betaPos:    scalarVariable(scope, nameBetaPos, c.betaPos, c.learnBetaPos),
		projection: newProjection(c, scope.In(scopeProjection)),
	}
	if c.evaluation == evaluateTable {
		e.openTable()
	}
	if c.prefix > 0 {
		e.prefix = weight.Float32(scope, namePrefix, weight.Normal(prefixStd), c.prefix, c.width)
	}
	return e
}

func (e *encoder) layout() grid { return e.config.grid }

// Name implements pos.Encoder: mode, evaluation, projection and grid.
func (e *encoder) Name() string {
	c := e.config
	form := string(c.mode)
	if c.compression == compressSphere {
		form = string(compressSphere)
	}
	return fmt.Sprintf("WePE(%s, %s, %s, %d×%d+%d)", form, c.evaluation, c.projection, c.rows, c.cols, c.prefix)
}

// Features implements Field.
func (e *encoder) Features(g *Graph) *Node { return e.featuresOn(g, e.config.grid) }

func (e *encoder) featuresOn(g *Graph, on grid) *Node {
	switch {
	case e.config.evaluation != evaluateTable:
		return e.features(g, on)
	case e.config.compression == compressSphere:
		return e.lookUpSphere(g, on)
	default:
		p, pPrime := e.lookUpPatches(g, on)
		return e.compressed(e.config.mode.alphaScale(e.alphaScale.NodeValue(g)), p, pPrime)
	}
}

// Encode implements Encoder: β_pos·[prefix rows; projected features].
func (e *encoder) Encode(g *Graph) *Node {
	rows := e.config.means(e.projection.apply(e.featuresOn(g, e.config.denser()))) // [rows·cols, width]
	if e.prefix != nil {
		rows = Concatenate([]*Node{e.prefix.NodeValue(g), rows}, 0)
	}
	return Mul(e.betaPos.NodeValue(g), rows)
}

// Start implements Encoder.
func (e *encoder) Start(compute.Backend) error { return nil }

// PreEncode implements pos.PreEncoder.
func (e *encoder) PreEncode(x, positionIndices *Node, seqAxis int) *Node {
	return additive.PreEncode(e.Encode(x.Graph()), x, positionIndices, seqAxis)
}

// field is a lattice whose features are not projected.
type field struct{ lattice }

const scopeField = "wepe_field"

// Field creates the variables of features without a projection. The settings of Build apply, except projection, prefix
// and β_pos. On a grid coarser than the training grid a patch gets the mean over the training patches that it covers,
// mathematics.md (6.11). Variables, below the scope given to New:
//
//	wepe_field/omega3_raw, alpha_scale_raw    []    on the sphere wepe_field_sphere/…
func (c *Config) Field() Field {
	resolved := c.resolve()
	if resolved.evaluation == evaluateTable {
		refuse("", "a field is evaluated without a table")
	}
	return &field{newLattice(resolved, c.scope.In("%s", resolved.formScope(scopeField)))}
}

// Features implements Field.
func (f *field) Features(g *Graph) *Node { return f.config.means(f.features(g, f.config.denser())) }

// ComplexNode is a complex tensor as two real tensors of equal shape. The pure-Go and ONNX backends have no complex
// numbers, and a pair is differentiated like any real tensors.
type ComplexNode = elliptic.ComplexNode

// P returns ℘(z) and ℘′(z) for the lattice {2mω1 + 2inω3′}, exact to the precision of the dtype (float32 or float64)
// and differentiable with respect to z and both half-periods, up to 10⁶ half-periods from the origin. Within the
// larger of 4e-8 half-periods and 4e-9 of a pole, in float64 too, both decrease to 0 at the pole.
//
// z may have any shape; omega1 and omega3p (ω3′, the modulus of the imaginary half-period) are positive scalars of z's
// dtype. The results have z's shape and are finite there, poles included.
func P(z ComplexNode, omega1, omega3p *Node) (p, pPrime ComplexNode) {
	return elliptic.P(z, elliptic.Rectangle(omega1, omega3p))
}

// Sphere returns S(α_scale·w) and S(α_scale·w′), ℘ and ℘′ of the lattice {2mω1 + 2inω3′} as points of the Riemann
// sphere, mathematics.md section 14. With w = (℘ - e2)/√((e1-e2)(e2-e3)) and w′ = ℘′·(3/|Δ|)^¼,
//
//	S(w) = [2 Re w, 2 Im w, |w|² - 1]/(|w|² + 1),   S(∞) = (0, 0, 1)
//
// z may have any shape; omega1, omega3p and alphaScale are positive scalars of its dtype. The results are
// [z's shape..., 3], of norm 1, finite and differentiable up to 10⁶ half-periods from the origin, poles included, for
// half-periods from 1e-15 to 1e15.
func Sphere(z ComplexNode, omega1, omega3p, alphaScale *Node) (point, prime *Node) {
	return elliptic.Sphere(z, elliptic.Rectangle(omega1, omega3p), alphaScale)
}
