// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
)

// The look-up table of an encoder is stored with its variables, so that the model's checkpoints contain it: its nodes,
// and the key that they were computed from. Neither is trainable.
const (
	scopeTable      = "table"
	nameTableKey    = "key"    // float64 [7], see tableKey.encode
	nameTableValues = "values" // [resolution, resolution, 4], on the sphere 6
)

// encode writes the key as numbers, in the order of the fields.
func (k tableKey) encode() []float64 {
	mode := float64(slices.Index(tableModes, k.Mode))
	return []float64{mode, k.Omega1, k.Omega3p, k.SpanU, k.SpanV, float64(k.Resolution),
		float64(slices.Index(tableKinds, k.Kind))}
}

// decodeTableKey reverses encode.
func decodeTableKey(x []float64) tableKey {
	k := tableKey{Omega1: x[1], Omega3p: x[2], SpanU: x[3], SpanV: x[4], Resolution: int(x[5])}
	if i := x[0]; i == 0 || i == 1 {
		k.Mode = tableModes[int(i)]
	}
	if i := x[6]; i == 0 || i == 1 || i == 2 {
		k.Kind = tableKinds[int(i)]
	}
	return k
}

// Codes of the modes and kinds in a key; they are a file format.
var (
	tableModes = []mode{paper, release}
	tableKinds = []tableKind{deflatedTable, rawTable, sphereTable}
)

// same reports whether two keys describe the same table. The last digits are ignored because softplus may round
// differently on another machine; one float32 step of ω3′ is 10⁵ times more.
func (k tableKey) same(other tableKey) bool {
	a, b := k.encode(), other.encode()
	for i := range a {
		if !(math.Abs(a[i]-b[i]) <= 1e-12*math.Abs(b[i])) {
			return false
		}
	}
	return true
}

// tableKey returns the key of the table for the present values of the encoder and its settings, and the present
// α_scale.
func (e *Encoder) tableKey() (key tableKey, alphaScale float64, err error) {
	c := e.config
	if c.oblique() || c.views() > 1 && c.compression == compressTanh {
		return key, 0, fmt.Errorf("wepe: no table for %s: a table has a single rectangular lattice", e.Name())
	}
	values, err := e.Scalars()
	if err != nil {
		return key, 0, err
	}
	key = tableKey{Mode: c.mode, Omega1: c.omega1, Omega3p: values["omega3"], SpanU: c.alphaU, SpanV: c.alphaV,
		Resolution: c.tableResolution, Kind: c.tableKind}
	if c.compression == compressSphere {
		key.SpanU, key.SpanV, key.Kind = 1, 1, sphereTable
	}
	return key, values["alpha_scale"], nil
}

// BuildTable computes the table from the current values and stores it with the encoder's variables, replacing an
// earlier one. An encoder that evaluates by table builds a missing table itself; call BuildTable after training ω3′
// further. Executors compiled earlier keep the old table.
//
// A deflated table (the default) gets more nodes than wepe_table_resolution where the error of its features would
// exceed wepe_table_error, as on lattices far from square; no table is built if the largest size is not enough.
func (e *Encoder) BuildTable() error {
	key, alphaScale, err := e.tableKey()
	if err != nil {
		return err
	}
	table, err := key.onHost()
	if err == nil {
		table, err = table.fit(alphaScale, e.config.tableError)
	}
	if err != nil {
		return err
	}
	scope := e.scope.At(scopeTable)
	for _, part := range []struct {
		name  string
		value *tensors.Tensor
	}{
		{nameTableKey, tensors.FromValue(table.encode())},
		{nameTableValues, filled(e.config.dtype, table.values(), table.Resolution, table.Resolution, table.channels())},
	} {
		v := scope.GetVariable(part.name)
		if v != nil {
			err = v.SetValue(part.value)
		} else {
			v, err = scope.CreateVariable(part.name, part.value)
		}
		if err != nil {
			return fmt.Errorf("wepe: table in %q: %w", scope.Scope(), err)
		}
		v.SetTrainable(false)
	}
	return nil
}

// checkTable returns the key of the stored table and the present α_scale, or the reason why the table does not match
// the encoder's present values.
func (e *Encoder) checkTable() (key tableKey, alphaScale float64, err error) {
	want, alphaScale, err := e.tableKey()
	if err != nil {
		return key, 0, err
	}
	scope := e.scope.At(scopeTable)
	stored, values := scope.GetVariable(nameTableKey), scope.GetVariable(nameTableValues)
	if stored == nil || values == nil {
		return key, 0, fmt.Errorf("wepe: no table in %q: call Encoder.BuildTable", scope.Scope())
	}
	value, err := stored.Value()
	if err != nil {
		return key, 0, fmt.Errorf("wepe: variable %q: %w", stored.Path(), err)
	}
	numbers, ok := value.Value().([]float64)
	if !ok || len(numbers) != len(want.encode()) {
		return key, 0, fmt.Errorf("wepe: variable %q is %s, want %d float64", stored.Path(), stored.Shape(),
			len(want.encode()))
	}
	key = decodeTableKey(numbers)
	want.Resolution = max(want.Resolution, key.Resolution) // the lattice may have required more nodes
	if !key.same(want) {
		return key, 0, fmt.Errorf("wepe: the table in %q is of %+v, the encoder's values are %+v: call Encoder.BuildTable",
			scope.Scope(), key, want)
	}
	shape := shapes.Make(e.config.dtype, key.Resolution, key.Resolution, key.channels())
	if !values.Shape().Equal(shape) {
		return key, 0, fmt.Errorf("wepe: variable %q is %s, want %s", values.Path(), values.Shape(), shape)
	}
	stored.SetTrainable(false) // variables from a checkpoint are trainable
	values.SetTrainable(false)
	return key, alphaScale, nil
}

// tableWarning reports the error of the features if training α_scale has raised it above paramTableError; otherwise it
// is empty.
func (e *Encoder) tableWarning() string {
	if e.config.evaluation != evaluateTable || e.config.tableKind == rawTable {
		return ""
	}
	key, alphaScale, err := e.checkTable()
	if err != nil {
		return err.Error()
	}
	table, err := key.onHost()
	if err != nil {
		return err.Error()
	}
	worst := table.errorOf(alphaScale)
	if worst <= e.config.tableError {
		return ""
	}
	return fmt.Sprintf("%s: at α_scale = %.3g features out of the table of %d nodes a side err by %.2g, more than "+
		"%s = %g: Encoder.BuildTable makes one that does not", e.Name(), alphaScale, key.Resolution, worst,
		paramTableError, e.config.tableError)
}

// openTable makes sure that the table of the encoder's present values is stored. It panics if another table is stored.
func (e *Encoder) openTable() {
	var err error
	if e.scope.At(scopeTable).GetVariable(nameTableKey) == nil {
		err = e.BuildTable()
	}
	if err == nil {
		_, _, err = e.checkTable()
	}
	if err != nil {
		exceptions.Panicf("%v", err)
	}
}

// mustOpenTable returns the key and the nodes of the stored table. It panics with the error of checkTable.
func (e *Encoder) mustOpenTable(g *Graph) (tableKey, *Node) {
	key, _, err := e.checkTable()
	if err != nil {
		exceptions.Panicf("%v", err)
	}
	return key, e.scope.At(scopeTable).GetVariable(nameTableValues).NodeValue(g)
}

// filled returns a tensor with the given elements.
func filled(dtype dtypes.DType, values []float64, dims ...int) *tensors.Tensor {
	if dtype == dtypes.Float64 {
		return tensors.FromFlatDataAndDimensions(values, dims...)
	}
	rounded := make([]float32, len(values))
	for i, v := range values {
		rounded[i] = float32(v)
	}
	return tensors.FromFlatDataAndDimensions(rounded, dims...)
}
