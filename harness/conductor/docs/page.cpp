#include "harness/conductor/docs/page.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::string_view opening = "<!-- assay docs: ", opening_end = " -->\n";
constexpr std::string_view closing = "<!-- /assay docs -->\n";

std::string block_text(const PageBlock& block) {
  return fmt::format("{}{}{}\n{}\n{}", opening, block.name, opening_end, block.text(), closing);
}

const PageBlock& find_block(const Page& page, const std::string& name, std::string_view where) {
  for (const PageBlock& block : page.blocks)
    if (block.name == name) return block;
  std::vector<std::string> known;
  for (const PageBlock& block : page.blocks) known.push_back(block.name);
  throw PageError(
      fmt::format("{}: the page {} has no block '{}'{}", where, page.name, name, suggestion(name, known)));
}

}  // namespace

std::string new_text(const Page& page) {
  std::string text = fmt::format("# {}\n", page.title);
  for (const PageBlock& block : page.blocks) text += "\n" + block_text(block);
  return text;
}

std::string updated_text(const Page& page, std::string_view current, std::string_view where) {
  std::string text;
  std::set<std::string> seen;
  for (std::size_t at = 0;;) {
    const std::size_t begin = current.find(opening, at);
    text += current.substr(at, begin - at);
    if (begin == current.npos) break;
    const std::size_t name = begin + opening.size();
    const std::size_t name_end = current.find(opening_end, name);
    const std::size_t end = current.find(closing, name);
    const std::size_t next = current.find(opening, name);
    if (name_end == current.npos || end == current.npos || name_end > end || next < end)
      throw PageError(fmt::format("{}: a block has no end; add the line {}", where,
                                  closing.substr(0, closing.size() - 1)));
    const PageBlock& block = find_block(page, std::string(current.substr(name, name_end - name)), where);
    if (!seen.insert(block.name).second)
      throw PageError(fmt::format("{}: the block '{}' is there twice; remove one", where, block.name));
    text += block_text(block);
    at = end + closing.size();
  }
  for (const PageBlock& block : page.blocks)
    if (!seen.contains(block.name))
      throw PageError(fmt::format("{}: the block '{}' is missing; add the lines\n{}{}{}{}", where, block.name,
                                  opening, block.name, opening_end, closing.substr(0, closing.size() - 1)));
  return text;
}

}  // namespace assay
