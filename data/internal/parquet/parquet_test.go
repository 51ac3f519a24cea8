// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
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
	file := gomlxtest.Must(os.Create(path))(t)
	defer file.Close()
	options = append([]pq.WriterOption{pq.MaxRowsPerRowGroup(100), pq.PageBufferSize(100_000), pq.Compression(&pq.Snappy),
		pq.DataPageVersion(1), pq.DataPageStatistics(false)}, options...) // statistics of images are images
	w := pq.NewGenericWriter[T](file, options...)
	for _, r := range rows { // one by one, as pages end between calls
		gomlxtest.Must(w.Write([]T{r}))(t)
	}
	gomlxtest.NoError(t, w.Close())
}

// put writes the bytes of a file.
func put(t testing.TB, path string, raw []byte) {
	t.Helper()
	gomlxtest.NoError(t, os.WriteFile(path, raw, 0o644))
}

// opened indexes files, or fails the test.
func opened(t testing.TB, paths ...string) *Shards {
	t.Helper()
	return gomlxtest.Must(Index(paths))(t)
}

// reads tests that an image has its bytes.
func reads(t *testing.T, name string, f *Shards, part int, want []byte) {
	t.Helper()
	if got, err := f.read(part); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: image %d has %d bytes, want %d, %v", name, part, len(got), len(want), err)
	}
}

// pyarrow writes row groups without rows or pages.
func TestIndex_EmptyRowGroupsHaveNoImages(t *testing.T) {
	files := opened(t, "testdata/groups.parquet")
	is.Equal(t, "labels", files.Labels, []int32{0, 1, 2})
	for row, grey := range []uint8{10, 20, 30} {
		img := gomlxtest.Must(png.Decode(bytes.NewReader(gomlxtest.Must(files.read(row))(t))))(t)
		is.Equal(t, "grey", img.At(1, 2), color.Color(color.RGBA{grey, grey, grey, 255}))
	}
}

// attacked writes a file and reads a row of it: an error is one line, and memory is in proportion to the file.
func attacked(t testing.TB, name, path string, raw []byte, part int) error {
	t.Helper()
	put(t, path, raw)
	used, err := campaign.Malformed(t, func() error {
		files, err := Index([]string{path})
		for row := part; err == nil && row < len(files.Labels); row++ {
			if _, err = files.read(row); part > 0 {
				break
			}
		}
		return err
	})
	if used > uint64(3*len(raw)+16<<20) || err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %d bytes allocated for %d, %v", name, used, len(raw), err)
	}
	return err
}

func rowsOf(contents [][]byte) []row {
	rows := make([]row, len(contents))
	for i, content := range contents {
		label, path := int64(i%3), fmt.Sprint(i, ".jpg")
		rows[i] = row{&img{content, &path}, &label}
	}
	return rows
}

const hub = `{"info": {"features": {"image": {"_type": "Image"}, "tags": [{"names": 1}], ` +
	`"label": {"names": ["cat", "dog", "eel"], "_type": "ClassLabel"}}}}`

func TestIndex_EveryImageIsReadByItsIndex(t *testing.T) {
	dir, want := t.TempDir(), contents(731)
	paths := []string{filepath.Join(dir, "train-0.parquet"), filepath.Join(dir, "train-1.parquet")}
	write(t, paths[0], rowsOf(want)[:333], pq.KeyValueMetadata("huggingface", hub))
	write(t, paths[1], rowsOf(want)[333:], pq.DataPageVersion(2), pq.Compression(&pq.Zstd))
	f := opened(t, paths...)
	is.Equal(t, "images, and a label", [2]int{len(f.Labels), int(f.Labels[335])}, [2]int{len(want), 335 % 3})
	is.Equal(t, "classes and place", fmt.Sprint(f.Classes, f.Where(333+105)), "[cat dog eel]"+paths[1]+": row 105")
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for _, i := range rand.New(rand.NewPCG(uint64(worker), 1)).Perm(len(want)) {
				reads(t, "concurrently", f, i, want[i])
			}
		})
	}
	group.Wait()
}

// The columns of uoft-cs/cifar100, in their order.
func TestIndex_ColumnsWithOtherNames(t *testing.T) {
	path, want := filepath.Join(t.TempDir(), "a.parquet"), contents(2)
	type cifar struct {
		Img    img   `parquet:"img"`
		Fine   int64 `parquet:"fine_label"`
		Coarse int64 `parquet:"coarse_label"`
	}
	write(t, path, []cifar{{img{Bytes: want[0]}, 5, 1}, {img{Bytes: want[1]}, 3, 0}}, pq.KeyValueMetadata("huggingface",
		strings.Replace(hub, `"label"`, `"fine_label"`, 1)))
	f := opened(t, path)
	is.Equal(t, "labels and classes", fmt.Sprint(f.Labels, f.Classes), "[5 3] [cat dog eel]")
	reads(t, "img", f, 1, want[1])
}

// dictRow has a label of 32 bits by a dictionary, as pyarrow writes them.
type dictRow struct {
	Image *img  `parquet:"image,optional"`
	Label int32 `parquet:"label,dict"`
}

// Pages of the second version with a large image; images in a dictionary, which has no rows; statistics of images,
// which make a page's header longer than what is read of it at first.
func TestIndex_FormsOfPages(t *testing.T) {
	path, large := filepath.Join(t.TempDir(), "a.parquet"), make([]byte, 5<<20)
	rand.NewChaCha8([32]byte{}).Read(large) //nolint:errcheck // never fails
	rows := append(make([]dictRow, 100), dictRow{&img{Bytes: large}, 7}, dictRow{&img{Bytes: []byte("small")}, 1})
	for _, codec := range []compress.Codec{&pq.Snappy, &pq.Zstd, &pq.Uncompressed} {
		write(t, path, rows, pq.Compression(codec), pq.DataPageVersion(2))
		f := opened(t, path)
		is.Equal(t, codec.String(), f.Labels[99:], []int32{0, 7, 1})
		for i, want := range map[int][]byte{0: nil, 99: nil, 100: large, 101: []byte("small")} { // one page each
			reads(t, codec.String(), f, i, want)
		}
	}
	named := make([]required[indices, int32], 7)
	for i := range named {
		named[i].Image.Bytes = []byte{7, byte(i)}
	}
	write(t, path, named)
	for i, f := 0, opened(t, path); i < 7; i++ {
		reads(t, "dictionary", f, i, named[i].Image.Bytes)
	}
	want := contents(7)
	write(t, path, rowsOf(want), pq.DataPageStatistics(true))
	for i, f := 0, opened(t, path); i < 7; i++ {
		reads(t, "statistics", f, i, want[i])
	}
}

// Up to 4 MiB a page may be any times as long as its bytes, a longer one 16 times.
func TestIndex_ALongPageOfZerosIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	for size, valid := range map[int]bool{4<<20 - 64: true, 4 << 20: false} {
		rows := []dictRow{{&img{Bytes: make([]byte, size)}, 3}, {&img{Bytes: []byte("next")}, 1}} // a page each
		write(t, path, rows, pq.Compression(&pq.Zstd))
		f := opened(t, path)
		if got, err := f.read(0); (err == nil) != valid || valid && len(got) != size {
			t.Errorf("%d zeros: %d bytes, %v", size, len(got), err)
		}
		reads(t, "behind zeros", f, 1, []byte("next"))
	}
}

// A header may be the end of a file. The text in the second one claims 256 MiB: a mebibyte of it is read.
func TestPageHeader_IsReadUpToItsLimit(t *testing.T) {
	raw := append([]byte("PAR1"), marshalled(format.PageHeader{Type: format.DataPage, CRC: 77})...)
	p := gomlxtest.Must(chunk{file: bytes.NewReader(raw), end: int64(len(raw))}.page(4))(t)
	is.Equal(t, "content and checksum", [2]int{int(p.content), int(p.CRC)}, [2]int{len(raw), 77})
	raw = append([]byte{0x18, 0x80, 0x80, 0x80, 0x80, 0x01}, make([]byte, 5<<20)...)
	c := &counter{ReaderAt: bytes.NewReader(raw)}
	if _, err := (chunk{file: c, end: int64(len(raw))}).page(0); err == nil || c.read < 1<<20 || c.read > 2<<20 {
		t.Errorf("%d bytes were read, %v", c.read, err)
	}
}

// counter counts the bytes that are read.
type counter struct {
	io.ReaderAt
	read int64
}

func (c *counter) ReadAt(p []byte, at int64) (int, error) {
	c.read += int64(len(p))
	return c.ReaderAt.ReadAt(p, at)
}

func TestRead_CostsOnePageWithoutAPageIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	for _, codec := range []compress.Codec{&pq.Snappy, &pq.Zstd} { // says its length itself, is unpacked for it
		write(t, path, rowsOf(contents(100)), pq.Compression(codec))
		f := opened(t, path)
		gomlxtest.Must(f.read(99))(t) // finds the pages
		c := &counter{ReaderAt: f.files[0]}
		f.groups[0].file = c
		gomlxtest.Must(f.read(97))(t)
		if c.read < 3000 || c.read > 200_000 { // of 550,000
			t.Errorf("%s: %d bytes were read for an image in a page of about 100,000", codec, c.read)
		}
	}
	// As pyarrow writes them: all images of a group in one dictionary.
	want, named := contents(100), make([]required[indices, int32], 100)
	for i := range named {
		named[i].Image.Bytes = want[i]
	}
	write(t, path, named)
	f := opened(t, path)
	reads(t, "in a dictionary", f, 99, want[99])
	c := &counter{ReaderAt: f.files[0]}
	f.groups[0].file = c
	for _, i := range []int{97, 0, 98} {
		reads(t, "in a dictionary", f, i, want[i])
	}
	if c.read > 3000 {
		t.Errorf("%d bytes were read for images in a dictionary that was read before", c.read)
	}
}

// Schemas of other datasets, wrong labels and broken footers are refused in one line with the path, also behind another
// file.
func TestIndex_Refuses(t *testing.T) {
	dir := t.TempDir()
	path, good := filepath.Join(dir, "a.parquet"), filepath.Join(dir, "b.parquet")
	rows := rowsOf(contents(250))
	write(t, good, rows[:2], pq.KeyValueMetadata("huggingface", hub))
	write(t, path, rows)
	whole := gomlxtest.Must(os.ReadFile(path))(t)
	labelled := func(at int, label *int64) []row {
		out := slices.Clone(rows)
		out[at].Label = label
		return out
	}
	footer := func(content ...byte) []byte { // of a file
		return slices.Concat(whole[:1000], content, binary.LittleEndian.AppendUint32(nil, uint32(len(content))),
			[]byte("PAR1"))
	}
	minus, huge := int64(-1), int64(1)<<40
	for name, c := range map[string]struct {
		write func()
		want  string
	}{
		"no image": {func() {
			write(t, path, []struct {
				Label int64 `parquet:"label"`
			}{{1}})
		}, "image or img"},
		"an image as text": {func() { write(t, path, []required[string, int32]{{"x", 1}}) },
			`not the columns ["image" "label"]`},
		"labels as text": {func() { write(t, path, []required[img, string]{{img{}, "cat"}}) }, "a column label, labels"},
		"several images": {func() { write(t, path, []required[[]img, int32]{{[]img{{}}, 1}}) }, "image or img"},
		"names": {func() {
			write(t, path, rows[:2], pq.KeyValueMetadata("huggingface", strings.Replace(hub, "dog", "cow", 1)))
		}, "cow"},
		"no label":         {func() { write(t, path, labelled(101, nil)) }, "row 101"},
		"a negative label": {func() { write(t, path, labelled(7, &minus)) }, "row 7: label -1"},
		"a huge label":     {func() { write(t, path, labelled(3, &huge)) }, "row 3: label 1099511627776"},
		"cut":              {func() { put(t, path, whole[:len(whole)/2]) }, ""},
		"nothing":          {func() { put(t, path, nil) }, ""},
		"in the magic":     {func() { put(t, path, []byte("PAR1\x01\x00\x00\x00PAR1")) }, ""},
		"no footer":        {func() { put(t, path, []byte("PAR1\x00\x00\x00\x00PAR1")) }, "footer"},
		"a cut middle":     {func() { put(t, path, append(bytes.Clone(whole[:1000]), whole[len(whole)*9/10:]...)) }, ""},
		"no schema":        {func() { put(t, path, footer(0)) }, ""},
		"a list longer than the file": {func() { // version, 2^31-1 elements of a schema
			put(t, path, footer(0x15, 2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7, 0))
		}, "footer"},
		"absent": {func() { _ = os.Remove(path) }, "no such file"},
	} {
		c.write()
		for _, paths := range [][]string{{path}, {good, path}} {
			if name == "names" && len(paths) == 1 {
				continue
			}
			_, err := campaign.Malformed(t, func() error { return is.ErrorOf(Index(paths)) })
			is.Refused(t, name, err, c.want)
			is.Equal(t, name+": begins with its file", strings.HasPrefix(fmt.Sprint(err), path+": "), true)
		}
	}
	write(t, path, rows)
	f := opened(t, path)
	gomlxtest.NoError(t, os.Truncate(path, 1000)) // after it was indexed
	is.Equal(t, "a truncated file is read", is.ErrorOf(f.read(80)) == nil, false)
}

// FuzzFiles: a file gives a one-line error, or its images are read or refused; memory is proportional to the file.
func FuzzFiles(f *testing.F) {
	path := filepath.Join(f.TempDir(), "a.parquet")
	var seeds [][]byte
	for _, option := range []pq.WriterOption{pq.DataPageVersion(2), pq.Compression(&pq.Zstd)} {
		write(f, path, rowsOf(append(contents(3), []byte("an image"), nil)), option, pq.MaxRowsPerRowGroup(3))
		seeds = append(seeds, gomlxtest.Must(os.ReadFile(path))(f))
	}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) { _ = attacked(t, "fuzz", path, raw, 0) })
}

// A page may decompress to more than its header declares, and one wrong byte can cause this: for all codecs.
func TestIndex_ADecompressionBombInAPageIsRefusedInLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	content := slices.Concat(contents(100)...) // 700,000 bytes, which a page may have
	for k, codec := range []compress.Codec{&pq.Snappy, &pq.Zstd, &pq.Gzip, &pq.Brotli, &pq.Lz4Raw} {
		bomb := gomlxtest.Must(codec.Encode(nil, make([]byte, 64<<20)))(t)
		damaged := gomlxtest.Must(codec.Encode(nil, []byte("some bytes of an image, or what else has to be kept")))(t)
		damaged[len(damaged)/2] ^= 0xff
		lying := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, damaged) // the length of snappy
		little := slices.Concat([]byte{0x80, 0x80, 0x80, 0x28}, damaged)      // 80 MiB, or 655,360 bytes from the second on
		for name, body := range map[string][]byte{"bomb": bomb, "damaged": damaged, "lying": lying, "little": little,
			"empty": {}, "no values": bomb} {
			for _, at := range [][2]int{{0, 0}, {2, 0}, {0, 100}} { // images or the dictionary of labels, rows before
				if at[1] > 0 && name != "bomb" && name != "no values" {
					continue
				}
				column, rows := at[0], append(make([]dictRow, at[1]), dictRow{&img{Bytes: content}, 3})
				if at[1] == 0 { // a page behind it
					rows = append(rows, dictRow{Label: 1})
				}
				write(t, path, rows, pq.Compression(codec), pq.DataPageVersion(1+k%2))
				raw := withPage(t, path, at[1]/100, column, func(h *format.PageHeader) {
					if withBody(len(body))(h); name == "no values" {
						h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues = 0, 0
					}
				}, body...)
				name := fmt.Sprintf("%s in column %d, %s", name, column, codec)
				is.Equal(t, name+" is read", attacked(t, name, path, raw, at[1]) == nil, false)
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
	raw := gomlxtest.Must(os.ReadFile(path))(t)
	return raw, gomlxtest.Must(pq.OpenFile(bytes.NewReader(raw), int64(len(raw))))(t).Metadata()
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
	header := gomlxtest.Must(chunk{file: bytes.NewReader(raw), end: int64(len(raw))}.page(at))(t)
	old := raw[header.content:][:header.CompressedPageSize]
	length := header.content - at + int64(len(old))
	if change(&header.PageHeader); int(header.CompressedPageSize) == len(old) {
		body = old
	}
	page := append(marshalled(header.PageHeader), body...)
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
	footer := marshalled(*meta)
	return slices.Concat(slices.Concat(parts...), footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))),
		[]byte("PAR1"))
}

func TestIndex_PagesOutsideTheFileAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	refused := func(name string, spoiled func(raw []byte, meta *format.FileMetaData) []byte) {
		write(t, path, []dictRow{{&img{Bytes: contents(1)[0]}, 3}, {nil, 1}})
		err := attacked(t, name, path, spoiled(parsed(t, path)), 0)
		is.Refused(t, name, err)
		is.Equal(t, fmt.Sprint(name, ": ", err), strings.Contains(fmt.Sprint(err), "runtime error"), false)
	}
	for name, lie := range map[string]func(c *format.ColumnMetaData, size int64){
		"in the magic":            func(c *format.ColumnMetaData, _ int64) { c.DictionaryPageOffset = 3 },
		"behind the first byte":   func(c *format.ColumnMetaData, _ int64) { c.DictionaryPageOffset = 1 },
		"a dictionary behind it":  func(c *format.ColumnMetaData, _ int64) { c.DictionaryPageOffset = c.DataPageOffset + 1 },
		"data behind all its own": func(c *format.ColumnMetaData, _ int64) { c.DataPageOffset += c.TotalCompressedSize },
		"longer than the file":    func(c *format.ColumnMetaData, size int64) { c.TotalCompressedSize = size },
		"of less than no bytes":   func(c *format.ColumnMetaData, _ int64) { c.TotalCompressedSize = -7 },
	} {
		refused(name, func(raw []byte, meta *format.FileMetaData) []byte {
			lie(&meta.RowGroups[0].Columns[2].MetaData, int64(len(raw)))
			return ended(t, meta, raw[:len(raw)-footerLength(raw)])
		})
	}
	refused("a dictionary that ends in the data", func([]byte, *format.FileMetaData) []byte {
		return withPage(t, path, 0, 2, withBody(99), make([]byte, 13)...)
	})
}

// The library encodes the same headers.
func TestStructLength_IsThatOfTheLibrary(t *testing.T) {
	index := format.OffsetIndex{PageLocations: make([]format.PageLocation, 37),
		UnencodedByteArrayDataBytes: []int64{1, -1}}
	nested := func(n int) []byte { return slices.Concat(bytes.Repeat([]byte{0x1c}, n), make([]byte, n+1)) } // structures
	is.Equal(t, "structures in one another", gomlxtest.Must(structLength(nested(maxNesting)))(t), 2*maxNesting+1)
	lists := append(bytes.Repeat([]byte{0x19}, 1<<20), make([]byte, 1<<20)...)
	for _, deep := range [][]byte{nested(maxNesting + 1), lists} {
		is.Error(t, "too many structures in one another", is.ErrorOf(structLength(deep)), errStructure)
	}
	for _, v := range []any{index, format.PageHeader{Type: format.DataPage, CRC: 77}, format.SchemaElement{Name: "name"},
		format.ColumnIndex{NullPages: []bool{true, false, true, true, false}, MinValues: [][]byte{{1}, {}},
			MaxValues: [][]byte{{1}, {2}}}} {
		raw := marshalled(v)
		is.Equal(t, fmt.Sprintf("bytes of %T", v), gomlxtest.Must(structLength(append(raw, 1, 2, 3)))(t), len(raw))
		for n := range raw {
			is.Equal(t, fmt.Sprintf("%T: %d of %d bytes are whole", v, n, len(raw)), is.ErrorOf(structLength(raw[:n])) == nil,
				false)
		}
	}
}

// required is a row without optional values, indices of a dictionary or not.
type required[I, L any] struct {
	Image I `parquet:"image"`
	Label L `parquet:"label"`
}

type indices struct {
	Bytes []byte `parquet:"bytes,dict"`
}

type plain struct {
	Bytes []byte `parquet:"bytes"`
}

// The library allocates the values that a header declares, decompresses the first page of a chunk as the dictionary of
// the others whatever its type, and reads the next page if one has fewer rows than its header declares.
func TestIndex_AHeaderThatTheLibraryTrustsIsRefusedInLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	zeros := make([]byte, 32<<20)
	bomb := gomlxtest.Must(pq.Zstd.Encode(nil, zeros))(t)
	inPages := append([]required[plain, int32]{{Image: plain{slices.Concat(contents(40)...)}}, {Image: plain{zeros}}},
		make([]required[plain, int32], 5)...) // one in the first page, one in the second
	write := map[string]func(){
		"dictionary": func() { write(t, path, make([]required[indices, int32], 7), pq.Compression(&pq.Zstd)) },
		"page":       func() { write(t, path, inPages, pq.Compression(&pq.Zstd)) },
		"page 2":     func() { write(t, path, inPages, pq.Compression(&pq.Zstd), pq.DataPageVersion(2)) },
		"optional":   func() { write(t, path, rowsOf(contents(3)), pq.DataPageVersion(2)) },
		"labels":     func() { write(t, path, rowsOf(contents(3))) },
	}
	levels := func(n int32, compressed bool) func(*format.PageHeader) {
		return func(h *format.PageHeader) {
			h.DataPageHeaderV2.V.DefinitionLevelsByteLength = n
			h.DataPageHeaderV2.V.IsCompressed = thrift.Null[bool]{V: compressed, Valid: true}
		}
	}
	for name, c := range map[string]struct {
		row int
		of  string
		lie func(*format.PageHeader)
	}{
		"values": {4, "dictionary", func(h *format.PageHeader) { h.DictionaryPageHeader.V.NumValues = 1<<31 - 1 }},
		"the header of a dictionary": {4, "dictionary", func(h *format.PageHeader) {
			withBody(len(bomb))(h)
			h.Type, h.DataPageHeader.Valid, h.DataPageHeader.V.NumValues = format.DataPage, true, 1
		}},
		"nulls":               {0, "page 2", func(h *format.PageHeader) { h.DataPageHeaderV2.V.NumNulls = -1 << 30 }},
		"rows":                {4, "page", func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = 6 }},
		"7 bytes":             {0, "page", func(h *format.PageHeader) { h.UncompressedPageSize = 7 }},
		"half a gigabyte":     {0, "page", func(h *format.PageHeader) { h.UncompressedPageSize = 1<<29 + 1 }},
		"negative levels":     {0, "page 2", levels(-1, true)},
		"levels":              {0, "page 2", levels(1<<30, true)},
		"uncompressed levels": {0, "optional", levels(1<<30, false)},
	} {
		write[c.of]()
		is.Equal(t, name, attacked(t, name, path, withPage(t, path, 0, 0, c.lie, bomb...), c.row) == nil, false)
	}
	for _, n := range []int32{-1, 0, 1<<24 - 1, 1<<31 - 1} {
		write["labels"]()
		raw := withPage(t, path, 0, 2, func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = n })
		is.Equal(t, n, attacked(t, "labels", path, raw, 0) == nil, false)
	}
}
