// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wepe-go/wepe/internal/campaign"
)

// row is a row in the form of the hub's files.
type row struct {
	Image *img   `parquet:"image,optional"`
	Label *int64 `parquet:"label,optional"`
}

type img struct {
	Bytes []byte  `parquet:"bytes,optional"`
	Path  *string `parquet:"path,optional"`
}

// contents returns incompressible bytes of n files of many lengths.
func contents(n int) [][]byte {
	r := rand.New(rand.NewPCG(11, 0))
	out := make([][]byte, n)
	for i := range out {
		out[i] = make([]byte, 3000+r.IntN(5000))
		for k := range out[i] {
			out[i][k] = byte(r.Uint32())
		}
	}
	return out
}

// write writes a Parquet file with row groups of 100 rows, of pages of some 20 images.
func write[T any](t testing.TB, path string, rows []T, options ...pq.WriterOption) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	options = append([]pq.WriterOption{pq.MaxRowsPerRowGroup(100), pq.PageBufferSize(100_000), pq.Compression(&pq.Snappy),
		pq.DataPageVersion(1), pq.DataPageStatistics(false)}, options...) // statistics of images are images
	w := pq.NewGenericWriter[T](file, options...)
	for _, r := range rows { // one by one, as pages end between calls
		if _, err := w.Write([]T{r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func rowsOf(contents [][]byte) []row {
	rows := make([]row, len(contents))
	for i, content := range contents {
		label, path := int64(i%3), fmt.Sprint(i, ".jpg")
		rows[i] = row{&img{content, &path}, &label}
	}
	return rows
}

const hub = `{"info": {"features": {"image": {"_type": "Image"}, ` +
	`"label": {"names": ["cat", "dog", "eel"], "_type": "ClassLabel"}}}}`

func TestEveryImageIsReadByItsIndex(t *testing.T) {
	dir, want := t.TempDir(), contents(731)
	paths := []string{filepath.Join(dir, "train-0.parquet"), filepath.Join(dir, "train-1.parquet")}
	write(t, paths[0], rowsOf(want)[:333], pq.KeyValueMetadata("huggingface", hub))
	write(t, paths[1], rowsOf(want)[333:], pq.DataPageVersion(2), pq.Compression(&pq.Zstd))
	f, err := Files(dir, paths, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f.Len() != len(want) || !slices.Equal(f.Classes, []string{"cat", "dog", "eel"}) || f.Labels[335] != 335%3 ||
		f.Name != filepath.Base(dir) {
		t.Fatalf("%d images of %q", f.Len(), f.Classes)
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for _, i := range rand.New(rand.NewPCG(uint64(worker), 1)).Perm(len(want)) {
				if got, err := f.In.(*shards).read(i); err != nil || !bytes.Equal(got, want[i]) {
					t.Errorf("image %d: %d bytes, %v", i, len(got), err)
				}
			}
		})
	}
	group.Wait()
	if got := f.In.Where(333 + 105); got != paths[1]+": row 105" {
		t.Error(got)
	}
	again, err := Files(dir, paths, []string{"a", "b", "c", "d"})
	if err != nil || len(again.Classes) != 4 {
		t.Error(err)
	}
}

// dictRow has a label of 32 bits by a dictionary, as pyarrow writes them.
type dictRow struct {
	Image *img  `parquet:"image,optional"`
	Label int32 `parquet:"label,dict"`
}

func TestPagesOfTheSecondVersionAreRead(t *testing.T) {
	dir, large := t.TempDir(), make([]byte, 5<<20)
	rand.NewChaCha8([32]byte{}).Read(large) //nolint:errcheck // never fails
	path := filepath.Join(dir, "a.parquet")
	rows := append(make([]dictRow, 100), dictRow{&img{Bytes: large}, 7}, dictRow{&img{Bytes: []byte("small")}, 1})
	for _, codec := range []compress.Codec{&pq.Snappy, &pq.Zstd, &pq.Uncompressed} {
		write(t, path, rows, pq.Compression(codec), pq.DataPageVersion(2))
		f, err := Files(dir, []string{path}, nil)
		if err != nil || !slices.Equal(f.Labels[99:], []int32{0, 7, 1}) {
			t.Fatalf("%s: %v, %+v", codec, err, f)
		}
		for i, want := range map[int][]byte{0: nil, 99: nil, 100: large, 101: []byte("small")} { // one page each
			if got, err := f.In.(*shards).read(i); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: image %d has %d bytes, want %d, %v", codec, i, len(got), len(want), err)
			}
		}
	}
}

// A dictionary has no rows.
func TestImagesOutOfADictionaryAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	rows := make([]required[indices], 7)
	for i := range rows {
		rows[i].Image.Bytes = []byte{7, byte(i)}
	}
	write(t, path, rows)
	f, err := Files(filepath.Dir(path), []string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range rows {
		if got, err := f.In.(*shards).read(i); err != nil || !bytes.Equal(got, want.Image.Bytes) {
			t.Errorf("image %d is %v, want %v, %v", i, got, want.Image.Bytes, err)
		}
	}
}

// Statistics of images make a page's header longer than what is read of it at first.
func TestPagesWithStatisticsAreRead(t *testing.T) {
	dir, want := t.TempDir(), contents(7)
	path := filepath.Join(dir, "a.parquet")
	write(t, path, rowsOf(want), pq.DataPageStatistics(true))
	f, err := Files(dir, []string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got, err := f.In.(*shards).read(i); err != nil || !bytes.Equal(got, want[i]) {
			t.Errorf("image %d has %d bytes, want %d, %v", i, len(got), len(want[i]), err)
		}
	}
}

// Up to 4 MiB a page may be any times as long as its bytes, a longer one 16 times.
func TestALongPageOfZerosIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.parquet")
	for size, want := range map[int]string{4<<20 - 64: "", 4 << 20: "more than 16 times as many"} {
		rows := []dictRow{{&img{Bytes: make([]byte, size)}, 3}, {&img{Bytes: []byte("next")}, 1}} // a page each
		write(t, path, rows, pq.Compression(&pq.Zstd))
		f, err := Files(dir, []string{path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.In.(*shards).read(0)
		if (err == nil) != (want == "") || err == nil && len(got) != size ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d zeros: %d bytes, %v", size, len(got), err)
		}
		if got, err := f.In.(*shards).read(1); err != nil || string(got) != "next" {
			t.Errorf("behind %d zeros: %q, %v", size, got, err)
		}
	}
}

// The text in the header claims 256 MiB.
func TestAPagesHeaderIsReadOfAtMostAMebibyte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	raw := append([]byte{0x18, 0x80, 0x80, 0x80, 0x80, 0x01}, make([]byte, 5<<20)...)
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := &counter{File: file}
	_, _, err = pageHeader(c, 0, int64(len(raw)))
	if err == nil || c.read < 1<<20 || c.read > 2<<20 {
		t.Errorf("%d bytes were read, %v", c.read, err)
	}
}

func TestAPagesHeaderMayBeTheEndOfAFile(t *testing.T) {
	page := format.PageHeader{Type: format.DataPage, CRC: 77}
	header, err := thrift.Marshal(new(thrift.CompactProtocol), page)
	if err != nil {
		t.Fatal(err)
	}
	raw := append([]byte("PAR1"), header...)
	if got, n, err := pageHeader(bytes.NewReader(raw), 4, int64(len(raw))); err != nil || n != int64(len(header)) ||
		got.CRC != 77 {
		t.Errorf("%+v of %d bytes, %v", got, n, err)
	}
}

func TestAFooterIsReadBehindItsFile(t *testing.T) {
	f := withFooter{strings.NewReader("abcdefg, and more"), 5, []byte("XYZ")}
	if err := iotest.TestReader(io.NewSectionReader(f, 0, 8), []byte("abcdeXYZ")); err != nil {
		t.Error(err)
	}
	for at, want := range map[int64]string{3: "deXY", 4: "eXYZ", 5: "XYZ", 7: "Z", 8: "", 19: ""} {
		var raw [4]byte
		if n, err := f.ReadAt(raw[:], at); string(raw[:n]) != want || errors.Is(err, io.EOF) != (n < 4) {
			t.Errorf("from byte %d: %q, %v", at, raw[:n], err)
		}
	}
}

// counter counts the bytes that are read.
type counter struct {
	*os.File
	read int64
}

func (c *counter) ReadAt(p []byte, at int64) (int, error) {
	c.read += int64(len(p))
	return c.File.ReadAt(p, at)
}

func TestAnImageCostsOnePageWithoutAPageIndex(t *testing.T) {
	for _, codec := range []compress.Codec{&pq.Snappy, &pq.Zstd} { // says its length itself, is unpacked for it
		testAnImageCostsOnePage(t, codec)
	}
}

func testAnImageCostsOnePage(t *testing.T, codec compress.Codec) {
	dir, want := t.TempDir(), contents(100)
	path := filepath.Join(dir, "a.parquet")
	write(t, path, rowsOf(want), pq.Compression(codec))
	f, err := Files(dir, []string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.In.(*shards).read(99); err != nil { // finds the pages
		t.Fatal(err)
	}
	s := f.In.(*shards)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := &counter{File: file}
	pages, err := s.pages(s.groups[0], c, 97)
	if err != nil {
		t.Fatal(err)
	}
	if err := pages.SeekToRow(97); err != nil {
		t.Fatal(err)
	}
	if _, err := pages.ReadPage(); err != nil {
		t.Fatal(err)
	}
	if c.read < 3000 || c.read > 300_000 { // of 550,000
		t.Errorf("%s: %d bytes were read for an image in a page of about 100,000, which may be read twice", codec, c.read)
	}
}

func TestInvalidFilesAreRefusedInOneLine(t *testing.T) {
	dir := t.TempDir()
	path, good := filepath.Join(dir, "a.parquet"), filepath.Join(dir, "b.parquet")
	rows := rowsOf(contents(250))
	write(t, good, rows[:2])
	null, negative, large := slices.Clone(rows), slices.Clone(rows), slices.Clone(rows)
	minus, huge := int64(-1), int64(1)<<40
	null[101].Label, negative[7].Label, large[3].Label = nil, &minus, &huge
	raw := func(change func(whole []byte) []byte) func() {
		return func() {
			write(t, path, rows)
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(whole), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		write func()
		want  string
	}{
		"no image": {func() {
			write(t, path, []struct {
				Label int64 `parquet:"label"`
			}{{1}})
		}, "want a column image with bytes"},
		"an image as text": {func() {
			write(t, path, []struct {
				Image string `parquet:"image"`
				Label int64  `parquet:"label"`
			}{{"x", 1}})
		}, "want a column image with bytes"},
		"labels as text": {func() {
			write(t, path, []struct {
				Image img    `parquet:"image"`
				Label string `parquet:"label"`
			}{{img{}, "cat"}})
		}, "label of integers"},
		"several images": {func() {
			write(t, path, []struct {
				Image []img `parquet:"image"`
				Label int64 `parquet:"label"`
			}{{[]img{{}}, 1}})
		}, "want a column image with bytes"},
		"no label":         {func() { write(t, path, null) }, "row 101 has no label"},
		"a negative label": {func() { write(t, path, negative) }, "row 7: label -1, want 0 or more: move files without"},
		"a huge label":     {func() { write(t, path, large) }, "row 3: label 1099511627776"},
		"too few names": {func() {
			write(t, path, rows, pq.KeyValueMetadata("huggingface",
				strings.Replace(hub, `, "eel"`, "", 1)))
		}, "row 2: label 2, want 0 to 1"},
		"empty":      {func() { write(t, path, rows[:0]) }, "the 1 shards contain no images"},
		"cut":        {raw(func(whole []byte) []byte { return whole[:len(whole)/2] }), "or truncated"},
		"nothing":    {raw(func([]byte) []byte { return nil }), "not a Parquet file"},
		"other file": {raw(func([]byte) []byte { return bytes.Repeat([]byte("PAR1"), 99) }), "or truncated"},
		"a footer in the magic": {raw(func([]byte) []byte { return []byte("PAR1\x01\x00\x00\x00PAR1") }),
			"or truncated"},
		"no footer": {raw(func([]byte) []byte { return []byte("PAR1\x00\x00\x00\x00PAR1") }),
			"the footer is damaged: it is truncated"},
		"a cut middle": {raw(func(whole []byte) []byte {
			return slices.Concat(whole[:1000], whole[len(whole)-len(whole)/10:])
		}), ""},
		"no schema": {raw(func(whole []byte) []byte { // a structure without fields
			return slices.Concat(whole[:1000], []byte{0, 1, 0, 0, 0}, []byte("PAR1"))
		}), ""},
		"a list longer than the file": {raw(func(whole []byte) []byte {
			footer := []byte{0x15, 2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7, 0} // version, 2^31-1 elements of a schema
			return slices.Concat(whole[:1000], footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))),
				[]byte("PAR1"))
		}), "the footer is damaged: it is truncated"},
	} {
		c.write()
		_, err := campaign.Malformed(t, func() error {
			_, err := Files(dir, []string{path}, nil)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := Files(dir, []string{good, path}, []string{"a", "b"}); err == nil && name != "empty" {
			t.Errorf("%s: not refused behind another file", name)
		}
	}
	if _, err := Files(dir, []string{filepath.Join(dir, "absent.parquet")}, nil); err == nil {
		t.Error("an absent file is read")
	}
}

// A few wrong bytes give an error or an image, but no panic and no gigabytes.
func TestADamagedFileGivesAnErrorOrAnImage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.parquet")
	write(t, path, rowsOf(contents(120)))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Files(dir, []string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := f.In.(*shards).read(80); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("of a file that was cut since: %v", err)
	}
	r := rand.New(rand.NewPCG(5, 0))
	opened := 0
	for range 300 {
		spoiled := bytes.Clone(whole)
		for range 1 + r.IntN(3) { // in the footer, or in the headers of the first pages
			at := len(spoiled) - 1 - r.IntN(1500)
			if r.IntN(3) == 0 {
				at = 4 + r.IntN(60)
			}
			spoiled[at] = byte(r.Uint32())
		}
		if err := os.WriteFile(path, spoiled, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := Files(dir, []string{path}, nil)
		if err != nil {
			continue
		}
		opened++
		for _, part := range []int{0, f.Len() / 2, f.Len() - 1} {
			_, _ = f.In.(*shards).read(part)
		}
	}
	if opened == 0 || opened == 300 {
		t.Errorf("%d of 300 files were opened: nothing was tried", opened)
	}
}

// FuzzFiles: a file gives a one-line error, or its images are read or refused; memory is proportional to the file.
func FuzzFiles(f *testing.F) {
	path := filepath.Join(f.TempDir(), "a.parquet")
	var seeds [][]byte
	for _, options := range [][]pq.WriterOption{{pq.DataPageVersion(2)}, {pq.Compression(&pq.Zstd)}} {
		write(f, path, rowsOf([][]byte{{1, 2, 3}, []byte("an image"), {}}), options...)
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, raw)
	}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		used, _ := campaign.Cost(func() {
			files, err := Files(filepath.Dir(path), []string{path}, nil)
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			for part := 0; err == nil && part < min(files.Len(), 9); part++ {
				if _, err := files.In.(*shards).read(part); err != nil && strings.Contains(err.Error(), "\n") {
					t.Errorf("%q", err)
				}
			}
		})
		if used > uint64(3*len(raw)+16<<20) {
			t.Errorf("%d bytes allocated for %d", used, len(raw))
		}
	})
}

// A page's header may declare any size: nothing is allocated that the file does not contain.
func TestAFalseSizeIsRefusedInLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	for name, lie := range map[string]func(*format.PageHeader){
		"half a gigabyte":   func(h *format.PageHeader) { h.UncompressedPageSize = 1<<29 - 1 },
		"negative":          func(h *format.PageHeader) { h.UncompressedPageSize = -1 },
		"a hundred mebi":    func(h *format.PageHeader) { h.UncompressedPageSize = 100 << 20 },
		"16 million values": func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = 1<<24 - 1 },
		"no values":         func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = 0 },
		"-1 values":         func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = -1 },
		"2 billion values":  func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = 1<<31 - 1 },
	} {
		for column := range 3 { // bytes and path of an image, and its label
			for _, codec := range []compress.Codec{&pq.Snappy, &pq.Zstd, &pq.Gzip, &pq.Uncompressed} {
				write(t, path, rowsOf(contents(3)), pq.Compression(codec))
				raw := withPage(t, path, 0, column, lie)
				if err := os.WriteFile(path, raw, 0o644); err != nil {
					t.Fatal(err)
				}
				used, err := campaign.Malformed(t, func() error {
					files, err := Files(filepath.Dir(path), []string{path}, nil)
					for part := 0; err == nil && part < files.Len(); part++ {
						_, err = files.In.(*shards).read(part)
					}
					return err
				})
				if used > uint64(3*len(raw)+16<<20) {
					t.Errorf("%s in column %d, %s: %d bytes allocated for %d, %v", name, column, codec, used, len(raw), err)
				}
				if err != nil && strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %q", name, err)
				}
				if column == 2 && strings.HasSuffix(name, " values") && name != "no values" &&
					!strings.Contains(fmt.Sprint(err), "values at byte") {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// A page may decompress to more than its header declares, and one wrong byte can cause this: for all codecs.
func TestADecompressionBombInAPageIsRefusedInLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	one := contents(100) // of 700,000 bytes, which a page may have
	content := slices.Concat(one...)
	for k, codec := range []compress.Codec{&pq.Snappy, &pq.Zstd, &pq.Gzip, &pq.Brotli, &pq.Lz4Raw} {
		bomb, err := codec.Encode(nil, make([]byte, 64<<20))
		if err != nil {
			t.Fatal(err)
		}
		damaged, err := codec.Encode(nil, []byte("some bytes of an image, or what else has to be kept"))
		if err != nil {
			t.Fatal(err)
		}
		damaged[len(damaged)/2] ^= 0xff
		lying := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, damaged) // the length of snappy
		little := slices.Concat([]byte{0x80, 0x80, 0x80, 0x28}, damaged)      // 80 MiB, or 655,360 bytes from the second on
		for name, body := range map[string][]byte{"bomb": bomb, "damaged": damaged, "lying": lying, "little": little,
			"empty": {}, "no values": bomb} {
			for _, at := range [][3]int{{0, 0, 0}, {2, 0, 0}, {0, 100, 1}, {2, 100, -1}} { // a column, rows before, a group
				if at[1] > 0 && name != "bomb" && name != "no values" {
					continue
				}
				column, rows := at[0], append(make([]dictRow, at[1]), dictRow{&img{Bytes: content}, 3})
				if at[1] == 0 { // a page behind it
					rows = append(rows, dictRow{Label: 1})
				}
				if at[2] >= 0 { // images, the dictionary of the labels
					write(t, path, rows, pq.Compression(codec), pq.DataPageVersion(1+k%2))
				} else { // labels
					at[2] = 1
					write(t, path, append(make([]row, 100), rowsOf(one[:1])...), pq.Compression(codec))
				}
				raw := withPage(t, path, at[2], column, func(h *format.PageHeader) {
					if withBody(len(body))(h); name == "no values" {
						h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues = 0, 0
					}
				}, body...)
				if err := os.WriteFile(path, raw, 0o644); err != nil {
					t.Fatal(err)
				}
				used, err := campaign.Malformed(t, func() error {
					files, err := Files(filepath.Dir(path), []string{path}, nil)
					if err == nil {
						_, err = files.In.(*shards).read(at[1])
					}
					return err
				})
				if err == nil || used > uint64(3*len(raw)+16<<20) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s in column %d, %s: %d bytes allocated for %d, %v", name, column, codec, used, len(raw), err)
				}
			}
		}
	}
}

// withBody sets the size in a header, without a checksum.
func withBody(size int) func(*format.PageHeader) {
	return func(h *format.PageHeader) {
		h.CompressedPageSize, h.CRC, h.DataPageHeaderV2.V.DefinitionLevelsByteLength = int32(size), 0, 0
	}
}

// parsed returns a file and its footer.
func parsed(t *testing.T, path string) ([]byte, *format.FileMetaData) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := pq.OpenFile(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return raw, file.Metadata()
}

// withPage returns a file whose column has another header of its first page in a row group, optionally other bytes
// after it, and a matching footer.
func withPage(t *testing.T, path string, group, column int, change func(*format.PageHeader), body ...byte) []byte {
	t.Helper()
	raw, meta := parsed(t, path)
	about := &meta.RowGroups[group].Columns[column].MetaData
	at := about.DataPageOffset
	if about.DictionaryPageOffset > 0 {
		at = about.DictionaryPageOffset
	}
	header, length, err := pageHeader(bytes.NewReader(raw), at, int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	old := raw[at+length : at+length+int64(header.CompressedPageSize)]
	length += int64(len(old))
	if change(&header); int(header.CompressedPageSize) == len(old) {
		body = old
	}
	page, err := thrift.Marshal(new(thrift.CompactProtocol), header)
	if err != nil {
		t.Fatal(err)
	}
	page = append(page, body...)
	more := int64(len(page)) - length
	about.TotalCompressedSize += more
	for g := range meta.RowGroups {
		for i := range meta.RowGroups[g].Columns {
			if c := &meta.RowGroups[g].Columns[i].MetaData; c.DataPageOffset > at {
				c.DataPageOffset += more
				if c.DictionaryPageOffset > at {
					c.DictionaryPageOffset += more
				}
			}
		}
	}
	return ended(t, meta, raw[:at], page, raw[at+length:len(raw)-footerLength(raw)])
}

func footerLength(raw []byte) int { return 8 + int(binary.LittleEndian.Uint32(raw[len(raw)-8:])) }

// ended returns parts of a file with a footer.
func ended(t *testing.T, meta *format.FileMetaData, parts ...[]byte) []byte {
	t.Helper()
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), *meta)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(slices.Concat(parts...), footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))),
		[]byte("PAR1"))
}

func TestPagesOutsideTheFileAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	for name, lie := range map[string]func(c *format.ColumnMetaData, size int64){
		"in the magic":            func(c *format.ColumnMetaData, _ int64) { c.DictionaryPageOffset = 3 },
		"behind the first byte":   func(c *format.ColumnMetaData, _ int64) { c.DictionaryPageOffset = 1 },
		"a dictionary behind it":  func(c *format.ColumnMetaData, _ int64) { c.DictionaryPageOffset = c.DataPageOffset + 1 },
		"data behind all its own": func(c *format.ColumnMetaData, _ int64) { c.DataPageOffset += c.TotalCompressedSize },
		"longer than the file":    func(c *format.ColumnMetaData, size int64) { c.TotalCompressedSize = size },
		"of less than no bytes":   func(c *format.ColumnMetaData, _ int64) { c.TotalCompressedSize = -7 },
	} {
		write(t, path, []dictRow{{&img{Bytes: contents(1)[0]}, 3}, {nil, 1}})
		raw, meta := parsed(t, path)
		lie(&meta.RowGroups[0].Columns[2].MetaData, int64(len(raw)))
		if err := os.WriteFile(path, ended(t, meta, raw[:len(raw)-footerLength(raw)]), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Files(filepath.Dir(path), []string{path}, nil); err == nil ||
			!strings.Contains(err.Error(), "not within the file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	write(t, path, []dictRow{{&img{Bytes: contents(1)[0]}, 3}, {nil, 1}})
	raw := withPage(t, path, 0, 2, withBody(99), make([]byte, 13)...)
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Files(filepath.Dir(path), []string{path}, nil); err == nil ||
		!strings.Contains(err.Error(), "the file is truncated or damaged") {
		t.Errorf("a dictionary that ends in the data: %v", err)
	}
}

// The library encodes the same headers.
func TestStructLengthIsThatOfTheLibrary(t *testing.T) {
	index := format.OffsetIndex{PageLocations: make([]format.PageLocation, 37),
		UnencodedByteArrayDataBytes: []int64{1, -1}}
	nested := func(n int) []byte { return slices.Concat(bytes.Repeat([]byte{0x1c}, n), make([]byte, n+1)) } // structures
	if n, err := structLength(nested(maxNesting)); err != nil || n != 2*maxNesting+1 {
		t.Errorf("%d structures in one another: %d bytes, %v", maxNesting, n, err)
	}
	if _, err := structLength(nested(maxNesting + 1)); err == nil {
		t.Error("too many structures in one another are read")
	}
	for _, v := range []any{index, format.PageHeader{Type: format.DataPage, CRC: 77}, format.SchemaElement{Name: "name"},
		format.ColumnIndex{NullPages: []bool{true, false, true, true, false}, MinValues: [][]byte{{1}, {}},
			MaxValues: [][]byte{{1}, {2}}}} {
		raw, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := structLength(append(raw, 1, 2, 3)); err != nil || n != len(raw) {
			t.Errorf("%T: %d of %d bytes, %v", v, n, len(raw), err)
		}
		for n := range raw {
			if _, err := structLength(raw[:n]); err == nil {
				t.Errorf("%T: %d of %d bytes are whole", v, n, len(raw))
			}
		}
	}
}

// required is a row without optional values, indices of a dictionary or not.
type required[T any] struct {
	Image T     `parquet:"image"`
	Label int32 `parquet:"label"`
}

type indices struct {
	Bytes []byte `parquet:"bytes,dict"`
}

type plain struct {
	Bytes []byte `parquet:"bytes"`
}

// The library allocates the values that a header declares, decompresses the first page of a chunk as the dictionary of
// the others whatever its type, and reads the next page if one has fewer rows than its header declares.
func TestAHeaderThatTheLibraryTrustsIsRefusedInLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	zeros := make([]byte, 32<<20)
	bomb, err := pq.Zstd.Encode(nil, zeros)
	if err != nil {
		t.Fatal(err)
	}
	inPages := append([]required[plain]{{Image: plain{slices.Concat(contents(40)...)}}, {Image: plain{zeros}}},
		make([]required[plain], 5)...) // one in the first page, one in the second
	write := map[string]func(){
		"dictionary": func() { write(t, path, make([]required[indices], 7), pq.Compression(&pq.Zstd)) },
		"page":       func() { write(t, path, inPages, pq.Compression(&pq.Zstd)) },
		"page 2":     func() { write(t, path, inPages, pq.Compression(&pq.Zstd), pq.DataPageVersion(2)) },
		"optional":   func() { write(t, path, rowsOf(contents(3)), pq.DataPageVersion(2)) },
	}
	packed := 0 // bytes of the page
	levels := func(n int32, compressed bool) func(*format.PageHeader) {
		return func(h *format.PageHeader) {
			packed = int(h.CompressedPageSize)
			h.DataPageHeaderV2.V.DefinitionLevelsByteLength = n
			h.DataPageHeaderV2.V.IsCompressed = thrift.Null[bool]{V: compressed, Valid: true}
		}
	}
	for _, c := range []struct {
		want string
		row  int
		of   string
		lie  func(*format.PageHeader)
	}{
		{"the page of 2147483647 values at byte 4 has 0 nulls", 4, "dictionary",
			func(h *format.PageHeader) { h.DictionaryPageHeader.V.NumValues = 1<<31 - 1 }},
		{"the page of type DATA_PAGE at byte 4 has the header of a dictionary", 4, "dictionary", func(h *format.PageHeader) {
			withBody(len(bomb))(h)
			h.Type, h.DataPageHeader.Valid, h.DataPageHeader.V.NumValues = format.DataPage, true, 1
		}},
		{"the page of 1 values at byte 4 has -1073741824 nulls", 0, "page 2",
			func(h *format.PageHeader) { h.DataPageHeaderV2.V.NumNulls = -1 << 30 }},
		{"the file is truncated", 4, "page", func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = 6 }},
		{"a page at byte 4 does not unpack to the 7 bytes", 0, "page",
			func(h *format.PageHeader) { h.UncompressedPageSize = 7 }},
		{"536870913 bytes at byte 4: the file is truncated or damaged", 0, "page",
			func(h *format.PageHeader) { h.UncompressedPageSize = 1<<29 + 1 }},
		{"at byte 4: the file is truncated or damaged", 0, "page 2", levels(-1, true)},
		{"a page of %d and ", 0, "page 2", levels(1<<30, true)},
		{"damaged: runtime error", 0, "optional", levels(1<<30, false)},
	} {
		write[c.of]()
		raw := withPage(t, path, 0, 0, c.lie, bomb...)
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		used, err := campaign.Malformed(t, func() error {
			files, err := Files(filepath.Dir(path), []string{path}, nil)
			if err == nil {
				_, err = files.In.(*shards).read(c.row)
			}
			return err
		})
		want := strings.Replace(c.want, "%d", fmt.Sprint(packed-1<<30), 1)
		if err == nil || !strings.Contains(err.Error(), want) || used > uint64(3*len(raw)+16<<20) {
			t.Errorf("%d bytes allocated for %d, %v, want %q", used, len(raw), err, want)
		}
	}
}
