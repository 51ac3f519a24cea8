// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package hub

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Scheme is the prefix of a model's address.
const Scheme = "hf://"

// modelName is a model of the hub at some revision.
type modelName struct {
	id       string // owner/name, or only a name for the oldest models
	revision string // branch, tag, commit or refs/pr/N
}

func (m modelName) String() string { return m.id + "@" + m.revision }

const idPart = `[A-Za-z0-9_]([A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?`

// Both become paths in the cache and parts of an address, so they may have only characters that the hub and git allow.
var (
	validID       = regexp.MustCompile(`^(` + idPart + `/)?` + idPart + `$`)
	validRevision = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/+-]{0,254}$`)
	validCommit   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

func isCommit(revision string) bool { return validCommit.MatchString(revision) }

// parseModel reads [hf://][owner/]name[@revision].
func parseModel(address string) (modelName, error) {
	id, revision, given := strings.Cut(strings.TrimPrefix(address, Scheme), "@")
	if !given {
		revision = "main"
	}
	// The cache replaces / by --: two models would share a directory if a name contained --. The hub forbids such names.
	if !validID.MatchString(id) || strings.Contains(id, "--") || strings.Contains(id, "..") {
		return modelName{}, fmt.Errorf("hub: %q is not the address of a model, want hf://owner/name or "+
			"hf://owner/name@revision", address)
	}
	if !validRevision.MatchString(revision) || strings.Contains(revision, "..") || strings.Contains(revision, "/.") ||
		filepath.ToSlash(filepath.Clean(revision)) != revision || !filepath.IsLocal(revision) {
		return modelName{}, fmt.Errorf("hub: %q: revision %q is not a branch, tag or commit", address, revision)
	}
	return modelName{id, revision}, nil
}
