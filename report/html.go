// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"slices"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Pages are built from nodes, not with html/template: in a program that contains a template the linker keeps every
// exported method of every type, which made wepe larger by a quarter.

//go:embed style.css
var style string

const wide = `
body { max-width: 96rem; }
.columns { display: flex; gap: 1rem; overflow-x: auto; margin-top: 1rem; }
.columns > * { flex: 1 1 0; min-width: 15rem; }
.columns figure { margin: 0; }
.card + .card { margin-top: 1rem; }
nav a { color: var(--accent); margin-right: 1rem; }
`

// HTML writes a page about one run: recipe, accuracy before and after, curves, learned scalars, mistakes, and every
// setting. It is one file without scripts and network requests, in the reader's choice of light or dark, and printable.
// The fields of p are escaped.
func (p Page) HTML(w io.Writer) error {
	p.Start = cmp.Or(p.Start, "from scratch")
	p.Evals = slices.DeleteFunc(slices.Clone(p.Evals), func(e Eval) bool { return e.Job != p.Result.Job })
	body, err := p.nodes()
	if err != nil {
		return err
	}
	return render(w, document(fmt.Sprintf("%s: %s, seed %d", p.title(), p.Result.Encoding, p.Result.Seed), style, body))
}

func (p Page) title() string { return p.Result.Recipe + " on " + p.Result.Dataset }

// HTML writes the page, as [Page.HTML] does.
func (c Comparison) HTML(w io.Writer) error {
	return render(w, document(c.Title, style+wide, c.nodes()))
}

// render builds the page before it writes: an error leaves no partial page.
func render(w io.Writer, page g.Node) error {
	var out bytes.Buffer
	if err := page.Render(&out); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := out.WriteTo(w); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func document(title, style string, body g.Group) g.Node {
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(g.Attr("http-equiv", "Content-Security-Policy"),
				h.Content("default-src 'none'; style-src 'unsafe-inline'; img-src data:")),
			h.TitleEl(g.Text(title)),
			h.StyleEl(g.Raw(style)),
		),
		h.Body(body)))
}

func (p Page) nodes() (g.Group, error) {
	tiles, results := p.results()
	training, err := p.training()
	if err != nil {
		return nil, err
	}
	mistakes, err := p.mistakes()
	if err != nil {
		return nil, err
	}
	setting := func(name string) g.Node {
		return h.Div(h.Code(g.Text(name)), h.Code(g.Text(p.Settings[name])))
	}
	return g.Group{
		h.Header(
			h.H1(g.Text(p.title())),
			h.P(h.Class("quiet"), g.Text("position encoding "), h.B(g.Text(p.Result.Encoding)),
				g.Textf(", seed %d, %s", p.Result.Seed, p.Start)),
			g.If(p.Result.Failed != "", h.P(h.Class("failed"), g.Text("The run failed: "+p.Result.Failed)))),
		g.If(len(tiles) > 0, h.Div(h.Class("tiles"), g.Map(tiles, tile.html))),
		section(true, "Run", h.Div(h.Class("card"),
			h.Dl(g.Map(p.facts(), func(f fact) g.Node { return described(f.Name, h.Dd(g.Text(f.Value))) })),
			h.Dl(h.Class("wide"),
				g.If(len(p.Data) > 0, described("datasets", g.Map(p.Data, func(d string) g.Node { return h.Dd(g.Text(d)) }))),
				g.If(p.Result.Command != "", described("command", h.Dd(h.Code(g.Text(p.Result.Command)))))))),
		section(len(results.Rows) > 0, "Results", h.Div(h.Class("card"), results.html())),
		training,
		mistakes,
		section(len(p.Mistakes) > 0, "Misclassified images of highest confidence",
			h.Div(h.Class("card mistakes"), g.Map(p.Mistakes, Mistake.html))),
		g.Map(p.Figures, func(f Figure) g.Node { return section(true, f.Title, f.html()) }),
		section(len(p.Settings) > 0, "Settings",
			h.Div(h.Class("card settings"), g.Map(slices.Sorted(maps.Keys(p.Settings)), setting))),
		section(len(p.Notes) > 0, "Notes", paragraphs("", p.Notes)),
	}, nil
}

// training draws the rows of the run.
func (p Page) training() (g.Group, error) {
	if len(p.Evals) == 0 {
		return nil, nil
	}
	curves, err := NewFigure("loss and accuracy", "Loss in nats per image and top-1 accuracy on the validation split. "+
		"Dashed: training loss, with the augmentation and label smoothing of the recipe.",
		func(w io.Writer) error { return Curves(w, "", p.Evals) })
	out := g.Group{section(true, "Training", curves.html())}
	if err != nil || !hasScalars(p.Evals) {
		return out, err
	}
	scalars, err := NewFigure("learned scalars", "Scalars of the position encoding over the steps, after softplus or "+
		"another constraint.", func(w io.Writer) error { return Scalars(w, p.Evals) })
	return append(out, section(true, "Learned scalars of the encoding", scalars.html())), err
}

// mistakes draws the confusion.
func (p Page) mistakes() (g.Node, error) {
	if p.Confusion == nil {
		return nil, nil
	}
	matrix, err := NewFigure("confusion matrix", "Percentage of the images of each class, in its row, that were "+
		"predicted "+
		"as each other class. Recall is next to the name; the diagonal is left out.", p.Confusion.draw)
	if err != nil {
		return nil, err
	}
	confused := h.P(g.Text("No errors."))
	if most := p.Confusion.mistakes(pageLines); len(most.Rows) > 0 {
		confused = most.html()
	}
	return section(true, "Errors on the "+p.Split+" split",
		matrix.html(),
		h.Div(h.Class("pair"),
			h.Div(h.Class("card"), h.H3(g.Text("Most confused")), confused),
			h.Div(h.Class("card"), h.H3(g.Text("Lowest F1")), p.Confusion.Worst(pageLines).html()))), nil
}

func (c Comparison) nodes() g.Group {
	var links, sections g.Group
	for i, s := range c.Sections {
		id := fmt.Sprint("s", i)
		links = append(links, h.A(h.Href("#"+id), g.Text(s.Title)), g.Text("\n"))
		sections = append(sections, h.H2(h.ID(id), g.Text(s.Title)), s.nodes())
	}
	return g.Group{h.Header(h.H1(g.Text(c.Title)), paragraphs("quiet", c.Lines), h.Nav(links)), sections}
}

func (s Section) nodes() g.Group {
	small := func(f Figure) g.Node {
		return h.Figure(bitmap(f.PNG, f.Title), h.B(g.Text(f.Title)), g.Text(" "+f.Caption))
	}
	ofModel := func(f Figure) g.Node { return f.html(h.B(g.Text(f.Title)), g.Text(" ")) }
	column := func(figures []Figure) g.Node { return h.Div(g.Map(figures, ofModel)) }
	return g.Group{
		paragraphs("", s.Text),
		g.If(len(s.Table.Rows) > 0, h.Div(h.Class("card"), s.Table.html())),
		paragraphs("quiet", s.Table.Notes),
		g.If(len(s.Images) > 0, h.Div(h.Class("card mistakes"), g.Map(s.Images, small))),
		g.Map(s.Shared, func(f Figure) g.Node { return f.html() }),
		g.If(len(s.Columns) > 0, h.Div(h.Class("columns"), g.Map(s.Columns, column))),
	}
}

// section is a heading and its content, or nothing if there is none.
func section(content bool, title string, below ...g.Node) g.Node {
	return g.If(content, g.Group{h.H2(g.Text(title)), g.Group(below)})
}

func paragraphs(class string, texts []string) g.Group {
	return g.Map(texts, func(text string) g.Node { return h.P(g.If(class != "", h.Class(class)), g.Text(text)) })
}

func described(name string, values g.Node) g.Node { return h.Div(h.Dt(g.Text(name)), values) }

func bitmap(png []byte, alt string) g.Node {
	return h.Img(h.Src("data:image/png;base64,"+base64.StdEncoding.EncodeToString(png)), h.Alt(alt))
}

func (f Figure) html(before ...g.Node) g.Node {
	return h.Figure(h.Class("card bitmap"), bitmap(f.PNG, f.Title), h.FigCaption(append(before, g.Text(f.Caption))...))
}

func (t tile) html() g.Node {
	return h.Div(h.Class("tile"),
		h.Div(h.Class("quiet"), g.Text(t.Name)),
		h.Div(h.Class("number"), g.If(t.Before != "", h.Span(h.Class("quiet"), g.Text(t.Before+" → "))),
			h.B(g.Text(t.After)), g.If(t.Unit != "", g.Text(" "+t.Unit))),
		g.If(t.Note != "", h.Div(h.Class("quiet"), g.Text(t.Note))))
}

func (m Mistake) html() g.Node {
	return h.Figure(bitmap(m.Image, m.Class+", predicted as "+m.Predicted), g.Text("predicted "), h.B(g.Text(m.Predicted)),
		g.Textf(" (%s\u00a0%%), is ", percent(Number(m.Probability), 0)), h.B(g.Text(m.Class)))
}

func (t Table) html() g.Node {
	row := func(cell func(...g.Node) g.Node, texts []string) g.Node {
		var cells g.Group
		for i, text := range texts {
			cells = append(cells, cell(g.If(t.Numeric[i], h.Class("right")), g.Text(text)))
		}
		return h.Tr(cells)
	}
	return h.Div(h.Class("scroll"), h.Table(h.THead(row(h.Th, t.Header)),
		h.TBody(g.Map(t.Rows, func(texts []string) g.Node { return row(h.Td, texts) }))))
}
