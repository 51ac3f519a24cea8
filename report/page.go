// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Page is a page of sections: one HTML file without scripts and network requests, in the reader's choice of light or
// dark, printable, and readable on a phone. A field without content is left out; texts are escaped.
type Page struct {
	Title    string
	Lines    []string // below the title
	Failed   string   // why there is no result
	Sections []Section
}

// Section is a part of a page.
type Section struct {
	Title   string
	Text    []string
	Code    string // a command line
	Table   Table
	Images  []Figure   // small images, many in a row
	Figures []Figure   // side by side where there is room
	Columns [][]Figure // of each model
}

// Figure is a PNG with a title and a caption.
type Figure struct {
	Title, Caption string
	PNG            []byte
}

// NewFigure returns a figure with the PNG from draw.
func NewFigure(title, caption string, draw func(io.Writer) error) (Figure, error) {
	var content bytes.Buffer
	err := draw(&content)
	return Figure{title, caption, content.Bytes()}, err
}

// Pages are built from nodes, not with html/template: in a program that contains a template the linker keeps every
// exported method of every type, which made wepe larger by a quarter.

//go:embed style.css
var style string

// HTML writes the page. It is built before it is written: an error leaves no partial page.
func (p Page) HTML(w io.Writer) error {
	var links, sections g.Group
	for i, s := range p.Sections {
		id := fmt.Sprint("s", i)
		links = append(links, h.A(h.Href("#"+id), g.Text(s.Title)), g.Text("\n"))
		sections = append(sections, h.H2(h.ID(id), g.Text(s.Title)), s.nodes())
	}
	page := h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(g.Attr("http-equiv", "Content-Security-Policy"),
				h.Content("default-src 'none'; style-src 'unsafe-inline'; img-src data:")),
			h.TitleEl(g.Text(p.Title)),
			h.StyleEl(g.Raw(style)),
		),
		h.Body(
			h.Header(h.H1(g.Text(p.Title)), paragraphs("quiet", p.Lines),
				g.If(p.Failed != "", h.P(h.Class("failed"), g.Text("The run failed: "+p.Failed))),
				g.If(len(links) > 2, h.Nav(links))),
			sections)))
	var out bytes.Buffer
	err := page.Render(&out)
	if err == nil {
		_, err = out.WriteTo(w)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func (s Section) nodes() g.Group {
	named := func(f Figure) g.Node { return h.Figure(f.img(), h.B(g.Text(f.Title)), g.Text(" "+f.Caption)) }
	card := func(f Figure) g.Node {
		return h.Figure(h.Class("card bitmap"), f.img(), h.FigCaption(g.Text(f.Caption)))
	}
	titled := func(f Figure) g.Node {
		return h.Figure(h.Class("card bitmap"), f.img(), h.FigCaption(h.B(g.Text(f.Title)), g.Text(" "+f.Caption)))
	}
	return g.Group{
		paragraphs("", s.Text),
		g.If(s.Code != "", h.Pre(h.Class("card scroll"), h.Code(g.Text(s.Code)))),
		g.If(len(s.Table.Rows) > 0, h.Div(h.Class("card scroll"), s.Table.html())),
		paragraphs("quiet", s.Table.Notes),
		g.If(len(s.Images) > 0, h.Div(h.Class("card images"), g.Map(s.Images, named))),
		g.If(len(s.Figures) > 0, h.Div(h.Class("figures"), g.Map(s.Figures, card))),
		g.If(len(s.Columns) > 0, h.Div(h.Class("columns scroll"), g.Map(s.Columns, func(of []Figure) g.Node {
			return h.Div(g.Map(of, titled))
		}))),
	}
}

func paragraphs(class string, texts []string) g.Group {
	return g.Map(texts, func(text string) g.Node { return h.P(g.If(class != "", h.Class(class)), g.Text(text)) })
}

func (f Figure) img() g.Node {
	return h.Img(h.Src("data:image/png;base64,"+base64.StdEncoding.EncodeToString(f.PNG)), h.Alt(f.Title))
}

func (t Table) html() g.Node {
	row := func(cell func(...g.Node) g.Node, texts []string) g.Node {
		var cells g.Group
		for i, text := range texts {
			cells = append(cells, cell(g.If(i >= t.TextColumns, h.Class("right")), g.Text(text)))
		}
		return h.Tr(cells)
	}
	return h.Table(h.THead(row(h.Th, t.Header)),
		h.TBody(g.Map(t.Rows, func(texts []string) g.Node { return row(h.Td, texts) })))
}
