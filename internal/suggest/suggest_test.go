// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package suggest

import "testing"

func TestTheNearestNameIsSuggested(t *testing.T) {
	names := []string{"epochs", "batch_size", "learning_rate", "wepe", "wepe-sphere", "rope-axial"}
	for word, want := range map[string]string{
		"eposhs": "epochs", "epohcs": "epochs", "batchsize": "batch_size", "learning-rate": "learning_rate",
		"sphere": "wepe-sphere", "wepe-spere": "wepe-sphere", "WEPE": "wepe", "zebra": "", "ab": "",
	} {
		if got := Name(word, names); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
