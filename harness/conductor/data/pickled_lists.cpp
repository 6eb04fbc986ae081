#include "harness/conductor/data/pickled_lists.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/core/error.hpp"

namespace assay {
namespace {

constexpr std::uint64_t deepest_tuple = 8;
constexpr std::size_t longest_text = 4096;

struct Thing;

// What stands on the stack of the pickle machine.
struct Value {
  enum class Kind { nothing, mark, number, text, name, tuple, list, array, dtype } kind = Kind::nothing;
  std::int64_t number = 0;
  std::shared_ptr<Thing> thing;  // of text, name, tuple, list, array
};

// Without cycles and not deep, so that counting references suffices: tuples never change, a list within a
// list holds numbers alone, and an array keeps a list.
struct Thing {
  std::string text;
  std::vector<Value> items;           // of a tuple; of a list of lists
  std::vector<std::int32_t> numbers;  // of a list of numbers
  std::shared_ptr<Thing> lists;       // of an array, once it was built
  std::uint64_t depth = 0;            // of a tuple
  bool inner = false;                 // a list within a list
};

using Kind = Value::Kind;

constexpr std::array known_names = {std::string_view("numpy.core.multiarray._reconstruct"),
                                    std::string_view("numpy._core.multiarray._reconstruct"),
                                    std::string_view("numpy.ndarray"), std::string_view("numpy.dtype"),
                                    std::string_view("_codecs.encode")};

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::filesystem::path& path) : bytes_(bytes), path_(path) {}

  std::vector<std::vector<std::int32_t>> run() {
    while (step()) {
    }
    const Value top = pop();
    if (!stack_.empty() || top.kind != Kind::array || !top.thing->lists)
      fail("is no array of lists of numbers");
    const Thing& lists = *top.thing->lists;
    if (!lists.numbers.empty()) fail("is an array of numbers, not of lists");
    std::vector<std::vector<std::int32_t>> result;
    std::size_t numbers = 0;
    for (const Value& item : lists.items) {
      numbers += item.thing->numbers.size();
      if (numbers > bytes_.size()) fail("repeats its lists beyond its own size");
      result.push_back(item.thing->numbers);
    }
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw IoError("pickle", path_, fmt::format("{} (byte {} of the pickle)", what, begin_));
  }
  static std::string printable(std::string_view text) {
    std::string clean(text.substr(0, 80));
    for (char& c : clean)
      if (c < ' ' || c > '~') c = '?';
    return clean;
  }

  std::uint64_t little_endian(std::size_t count) {
    if (bytes_.size() - at_ < count) fail("is truncated");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i)
      value |= std::to_integer<std::uint64_t>(bytes_[at_ + i]) << (8 * i);
    at_ += count;
    return value;
  }
  std::string_view raw(std::uint64_t size) {
    if (size > bytes_.size() - at_) fail("is truncated");
    if (size > longest_text) fail(fmt::format("holds a text of {} bytes", size));
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return text;
  }
  std::string_view line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const std::size_t end = rest.substr(0, longest_text).find('\n');
    if (end == std::string_view::npos) fail("has a name without end");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  void push(Kind kind, std::int64_t number = 0) { stack_.push_back({kind, number, nullptr}); }
  void push(Kind kind, Thing thing) {
    stack_.push_back({kind, 0, std::make_shared<Thing>(std::move(thing))});
  }
  void push_text(std::string_view text, Kind kind = Kind::text) {
    Thing thing;
    thing.text = text;
    push(kind, std::move(thing));
  }
  void push_name(const std::string& name) {
    for (const std::string_view known : known_names)
      if (name == known) return push_text(name, Kind::name);
    fail(fmt::format("names '{}', which has no business in a list of numbers; it was not executed",
                     printable(name)));
  }
  Value pop() {
    if (stack_.empty()) fail("takes from an empty stack");
    Value value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  Value& top() {
    if (stack_.empty()) fail("looks at an empty stack");
    return stack_.back();
  }
  std::vector<Value> pop_to_mark() {
    for (std::size_t i = stack_.size(); i-- > 0;)
      if (stack_[i].kind == Kind::mark) {
        std::vector<Value> items(std::make_move_iterator(stack_.begin() + static_cast<std::ptrdiff_t>(i) + 1),
                                 std::make_move_iterator(stack_.end()));
        stack_.resize(i);
        return items;
      }
    fail("looks for a mark that is not there");
  }

  void push_tuple(std::vector<Value> items) {
    Thing tuple;
    for (const Value& item : items) {
      if (item.kind == Kind::mark) fail("has a mark within a tuple");
      if (item.kind == Kind::tuple) tuple.depth = std::max(tuple.depth, item.thing->depth + 1);
    }
    if (tuple.depth > deepest_tuple) fail("has tuples within tuples");
    tuple.items = std::move(items);
    push(Kind::tuple, std::move(tuple));
  }
  void push_last(std::size_t count) {
    std::vector<Value> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_tuple(std::move(items));
  }

  void append(const Value& list, const Value& item) {
    if (list.kind != Kind::list) fail("appends to what is no list");
    Thing& target = *list.thing;
    if (item.kind == Kind::number && target.items.empty()) {
      if (item.number < 0 || item.number > std::numeric_limits<std::int32_t>::max())
        fail(fmt::format("holds the number {}, which is no word", item.number));
      target.numbers.push_back(static_cast<std::int32_t>(item.number));
    } else if (item.kind == Kind::list && !target.inner && target.numbers.empty() &&
               item.thing->items.empty() && item.thing != list.thing) {
      item.thing->inner = true;
      target.items.push_back(item);
    } else {
      fail("has a list of other things than numbers, or than lists of numbers");
    }
  }

  void reduce() {
    const Value arguments = pop(), callable = pop();
    if (callable.kind != Kind::name || arguments.kind != Kind::tuple)
      fail("calls what is no name, or with what is no tuple; it was not executed");
    const std::string& name = callable.thing->text;
    if (name.ends_with("._reconstruct"))
      push(Kind::array, Thing{});
    else if (name == "numpy.dtype")
      push(Kind::dtype);
    else if (name == "_codecs.encode")
      push_text("");
    else
      fail(fmt::format("calls '{}'; it was not executed", name));
  }

  // The state of an array: (version, shape, dtype, is it in Fortran's order, list of its elements).
  void build() {
    const Value state = pop();
    Value& target = top();
    if (target.kind == Kind::dtype) return;
    if (target.kind != Kind::array || state.kind != Kind::tuple || state.thing->items.size() != 5 ||
        state.thing->items[4].kind != Kind::list)
      fail("builds what is no array of lists");
    target.thing->lists = state.thing->items[4].thing;
  }

  void put(std::uint64_t index) {
    if (top().kind == Kind::mark) fail("keeps a mark");
    memo_[index] = top();
  }
  void get(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail(fmt::format("recalls {}, which was not kept", index));
    stack_.push_back(found->second);
  }

  void push_long() {
    const std::uint64_t size = little_endian(1);
    if (size > 8) fail("holds a number of more than 64 bits");
    std::uint64_t value = little_endian(size);
    if (size > 0 && size < 8 && (value >> (8 * size - 1) & 1) != 0) value |= ~std::uint64_t{0} << (8 * size);
    push(Kind::number, static_cast<std::int64_t>(value));
  }

  // Executes one opcode; false at the end.
  bool step() {
    begin_ = at_;
    const auto code = static_cast<unsigned>(little_endian(1));
    switch (code) {
      case '.':
        return false;
      case 0x80: {  // PROTO
        const std::uint64_t protocol = little_endian(1);
        if (protocol < 2 || protocol > 5) fail(fmt::format("is of protocol {}; 2 to 5 are read", protocol));
        break;
      }
      case 0x95:  // FRAME
        little_endian(8);
        break;
      case '(':
        push(Kind::mark);
        break;
      case ']':
        push(Kind::list, Thing{});
        break;
      case ')':
        push_tuple({});
        break;
      case 0x85:
      case 0x86:
      case 0x87:  // TUPLE1 to TUPLE3
        push_last(code - 0x84);
        break;
      case 't':
        push_tuple(pop_to_mark());
        break;
      case 'a': {
        const Value item = pop();
        append(top(), item);
        break;
      }
      case 'e':
        for (const Value& item : pop_to_mark()) append(top(), item);
        break;
      case 'K':
        push(Kind::number, static_cast<std::int64_t>(little_endian(1)));
        break;
      case 'M':
        push(Kind::number, static_cast<std::int64_t>(little_endian(2)));
        break;
      case 'J':
        push(Kind::number, static_cast<std::int32_t>(little_endian(4)));
        break;
      case 0x8a:
        push_long();
        break;
      case 'N':
        push(Kind::nothing);
        break;
      case 0x88:
      case 0x89:  // True, False
        push(Kind::number, code == 0x88 ? 1 : 0);
        break;
      case 'q':
        put(little_endian(1));
        break;
      case 'r':
        put(little_endian(4));
        break;
      case 0x94:  // MEMOIZE
        put(memo_.size());
        break;
      case 'h':
        get(little_endian(1));
        break;
      case 'j':
        get(little_endian(4));
        break;
      case 'C':   // SHORT_BINBYTES
      case 'U':   // SHORT_BINSTRING
      case 0x8c:  // SHORT_BINUNICODE
        push_text(raw(little_endian(1)));
        break;
      case 'B':
      case 'T':
      case 'X':
        push_text(raw(little_endian(4)));
        break;
      case 'c': {
        const std::string module(line());
        push_name(module + "." + std::string(line()));
        break;
      }
      case 0x93: {  // STACK_GLOBAL
        const Value name = pop(), module = pop();
        if (name.kind != Kind::text || module.kind != Kind::text) fail("names something without a text");
        push_name(module.thing->text + "." + name.thing->text);
        break;
      }
      case 'R':
        reduce();
        break;
      case 'b':
        build();
        break;
      default:
        fail(fmt::format(
            "has the opcode 0x{:02x}, which no array of lists of numbers needs; it was not executed", code));
    }
    return true;
  }

  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
  std::size_t at_ = 0, begin_ = 0;
  std::vector<Value> stack_;
  std::map<std::uint64_t, Value> memo_;
};

}  // namespace

std::vector<std::vector<std::int32_t>> read_pickled_lists(std::span<const std::byte> pickle,
                                                          const std::filesystem::path& path) {
  return Machine(pickle, path).run();
}

}  // namespace assay
