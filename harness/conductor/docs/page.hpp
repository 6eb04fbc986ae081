// A reference page: prose that people write, with blocks that the program writes. In the file a block is what is
// between two comments:
//
//   <!-- assay docs: NAME -->
//   <!-- /assay docs -->
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.hpp"

namespace assay {

// The blocks in a file are not those of its page. The text says which, and what to do.
class PageError : public Error {
 public:
  using Error::Error;
};

struct PageBlock {
  std::string name;
  std::function<std::string()> text;  // Markdown that ends with a newline
};

struct Page {
  std::string name;   // of its file, without ".md"
  std::string title;  // of a file that is made new
  std::vector<PageBlock> blocks;
};

// The text of a file with the page's blocks and no prose.
std::string new_text(const Page& page);
// `current`, the text of the file, with every block written again; the prose stays. Throws PageError if a block is
// missing, unknown, there twice or not closed; `where` names the file.
std::string updated_text(const Page& page, std::string_view current, std::string_view where);

}  // namespace assay
