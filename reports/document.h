// SPDX-License-Identifier: Apache-2.0
// A report before it has a format: sections of paragraphs, tables, charts and folds. Markdown and HTML are two
// renderings of it. To add a section, start at sections.h.
#pragma once
#include <string>
#include <variant>
#include <vector>

namespace duet::reports {

enum class Tone { plain, muted, good, warn, bad, strong, code, cpu };  // cpu: where the CPU wins

struct Span {
  std::string text;
  Tone tone = Tone::plain;
  bool new_line = false;  // starts a new line
};
using Text = std::vector<Span>;

inline Span plain(std::string text) { return {std::move(text), Tone::plain}; }
inline Span muted(std::string text) { return {std::move(text), Tone::muted}; }
inline Span strong(std::string text) { return {std::move(text), Tone::strong}; }
inline Span code(std::string text) { return {std::move(text), Tone::code}; }
inline Span below(Span span) {
  span.new_line = true;
  return span;
}

struct Cell {
  Text text;
  std::vector<std::string> folded;  // a long list of names that is shown on demand; `text` is its summary
};
inline Cell cell(std::string text, Tone tone = Tone::plain) { return {{{std::move(text), tone}}, {}}; }

struct Column {
  std::string title;
  bool number = false;     // right aligned, tabular figures
  std::string group = {};  // neighbours of one group stand under a common header
};

// Rows from `first` on stand under a heading of their own, to the next group.
struct RowGroup {
  size_t first;
  Text title;
};

struct Table {
  Text caption;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::vector<RowGroup> groups = {};
  bool sortable = false;  // readers may sort and filter it where scripts run
};

// Leaves out columns that say nothing ("" or "–" in every row).
void drop_empty_columns(Table& table);
// Leaves out those of the named columns that say the same in every row, and says it once in the caption.
void state_constant_columns(Table& table, const std::vector<std::string>& titles);

struct Chart {
  std::string stem;  // file name without .svg, unique in a document
  std::string title, description;
  // Pixels. A page gives a chart the width that there is (its horizontal positions are percent, svg.h); `width` is that
  // of a file of its own.
  int width = 0, height = 0;
  std::string marks;  // the SVG's content
};

struct Figures {
  std::vector<Chart> charts;  // side by side where there is room
};

struct Block;

struct Fold {
  std::string summary;
  std::vector<Block> blocks;
};

struct Block {
  std::variant<Text, Table, Figures, Fold> content;
};

struct Section {
  std::string title;
  std::vector<Block> blocks;
  std::string conclusion = {};  // one sentence from the section's data; its last line
};

struct Document {
  std::string title;
  std::string headline;                // the answer in one sentence
  std::vector<std::string> sentences;  // what else the run says
  std::vector<std::string> cautions;   // what to read with care
  std::vector<Span> verdict;           // how many jobs have a result
  Text subtitle;                       // which run of which machine
  std::vector<std::string> warnings;   // always visible
  std::vector<std::string> notes;      // on demand
  std::vector<Section> sections;
};

// Ends the caption of every table that has `mark` in a cell with the mark and the note.
void explain_mark(Document& document, const std::string& mark, const std::string& note);

}  // namespace duet::reports
