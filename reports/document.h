// SPDX-License-Identifier: Apache-2.0
// A report before it has a format: sections of paragraphs, tables, charts and folds. Markdown and HTML are two
// renderings of it.
#pragma once
#include <string>
#include <variant>
#include <vector>

namespace duet::reports {

enum class Tone { plain, muted, good, warn, bad, strong, code };

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
  bool number = false;  // right aligned, tabular figures
};

struct Table {
  Text caption;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

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
};

struct Document {
  std::string title;
  Text subtitle;
  std::vector<Span> verdict;  // the bar of facts at the top
  std::vector<std::string> warnings;
  std::vector<Section> sections;
};

}  // namespace duet::reports
