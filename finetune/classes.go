// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/wepe-go/wepe/data"
)

// Labelled returns the description of a dataset with the model's classes: if both have the same names in different
// orders, or the dataset fewer, the labels are renumbered. A dataset that has only some of the names and others is
// refused. If the two share no name, the classes are compared by number, and the warning says so. Classes without names
// match by number without warning. Names that are numbers then count by their value: a folder per class sorts 10 before
// 2.
func (m *Model) Labelled(set *data.Info) (labelled *data.Info, warning string, err error) {
	at, shared := places(m.Classes, set.Classes)
	_, known := places(set.Classes, m.Classes)
	byName := shared == len(set.Classes) && shared == known && shared == distinct(set.Classes) // one of the model's each
	if byName && shared > 1 && shared < len(m.Classes) && !unnamed(set.Classes) {
		return renumbered(set, m.Classes, at), fmt.Sprintf("dataset %s has %d of the model's %d classes; predictions are "+
			"of all %[3]d", set.Name, len(set.Classes), len(m.Classes)), nil
	}
	if err := m.sameClasses(set); err != nil {
		return nil, "", err
	}
	if slices.Equal(set.Classes, m.Classes) || len(m.Classes) != len(set.Classes) { // or the model has no names
		return set, "", nil
	}
	if byName {
		return renumbered(set, m.Classes, at), "", nil
	}
	if labelled, warning = byNumber(m.Classes, set); warning != "" && shared == 0 || unnamed(m.Classes) ||
		unnamed(set.Classes) {
		return labelled, warning, nil
	}
	first := 0
	for m.Classes[first] == set.Classes[first] {
		first++
	}
	differ := fmt.Sprintf("class %d is %s in the model and %s in the data", first, m.Classes[first], set.Classes[first])
	if shared > 0 {
		has := fmt.Sprintf("has only %d of the model's %d classes", shared, len(m.Classes))
		if shared == len(m.Classes) {
			has = "has the model's classes in another order, and two with one name"
		}
		return nil, "", fmt.Errorf("finetune: dataset %s %s: %s: use a dataset with the model's classes, or give the same "+
			"classes the same names", set.Name, has, differ)
	}
	return set, fmt.Sprintf("dataset %s and the model share no class name, so classes are compared by number: %s",
		set.Name, differ), nil
}

// places returns the model's class of each class of a dataset, by name, and how many classes have one.
func places(model, set []string) (at []int, shared int) {
	of := make(map[string]int, len(model))
	for class, name := range model {
		of[name] = class
	}
	at = make([]int, len(set))
	for class, name := range set {
		place, known := of[name]
		if at[class] = place; known {
			shared++
		}
	}
	return at, shared
}

// renumbered returns a dataset with the model's classes, given the model's class of each of its own.
func renumbered(set *data.Info, model []string, at []int) *data.Info {
	ordered := *set
	ordered.Classes, ordered.Labels = model, make([]int32, len(set.Labels))
	for i, label := range set.Labels {
		ordered.Labels[i] = int32(at[label])
	}
	return &ordered
}

// byNumber returns a dataset whose classes are numbered as the model's: in the order of the numbers in their names, if
// all have another.
func byNumber(model []string, set *data.Info) (labelled *data.Info, warning string) {
	class, at := sortedByNumber(model), make([]int, len(model))
	for rank, own := range sortedByNumber(set.Classes) {
		at[own] = class[rank]
	}
	for own, class := range at {
		if own != class {
			return renumbered(set, model, at), fmt.Sprintf("the classes of dataset %s are compared by the numbers in their "+
				"names: %s is class %d of the model", set.Name, set.Classes[own], class)
		}
	}
	return set, ""
}

// sortedByNumber returns the indices of names in the order of the numbers in them, as they are if not all have another.
func sortedByNumber(names []string) []int {
	order, numbers := make([]int, len(names)), make([]int, len(names))
	different := map[int]bool{}
	for i, name := range names {
		order[i] = i
		if digits := aNumber.FindStringSubmatch(name); digits != nil {
			numbers[i], _ = strconv.Atoi(digits[1])
			different[numbers[i]] = true
		}
	}
	if len(different) == len(names) {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	}
	return order
}

// aNumber matches names with a number alone.
var aNumber = regexp.MustCompile(`^(?:class |LABEL_)?([0-9]+)$`)

// distinct is the number of different names. ImageNet's classes have two names twice.
func distinct(names []string) int { return len(slices.Compact(slices.Sorted(slices.Values(names)))) }

// generated matches names that nobody chose: Open's, transformers', and none. A number alone may be a year or an angle.
var generated = regexp.MustCompile(`^((class |LABEL_)[0-9]+)?$`)

// unnamed reports whether no class has a name.
func unnamed(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !generated.MatchString(name) })
}
