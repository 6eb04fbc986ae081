#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/json/escape.hpp"
#include "harness/core/json/schema.hpp"

namespace assay {
namespace codec_test {

enum class Color { red, green };

struct Point {
  int x = 0;
  double y = 0;
  std::optional<double> z{};
  bool operator==(const Point&) const = default;
};
inline Description describe(Of<Point>) {
  return fields("point", "A point.", field("x", &Point::x, "Along.").at_least(0),
                field("y", &Point::y, "Up."), field("z", &Point::z, "Out.").left_out_by_default());
}

struct Shade {
  double depth = 0;
  std::optional<std::vector<std::string>> tones{};
  bool operator==(const Shade&) const = default;
};
struct Dot {
  int at = 0;
  Color color = Color::red;
  std::optional<Shade> shade{};
  bool operator==(const Dot&) const = default;
};
inline Description describe(Of<Dot>) {
  return fields("dot", "A dot.", field("at", &Dot::at, "Where."), field("color", &Dot::color, "Its color."),
                field("depth", &Dot::shade, &Shade::depth, "Of its shade.").left_out_by_default(),
                field("tones", &Dot::shade, &Shade::tones, "Of its shade.").left_out_by_default());
}
struct Tick {
  int at = 0, count = 0;
};
inline Description describe(Of<Tick>) {
  return fields("tick", "A tick.", field("at", &Tick::at, "When."),
                field("count", &Tick::count, "How many.").left_out_of_columns());
}
struct Frame {
  std::int64_t width = 0;
};
inline Description describe(Of<Frame>) {
  return fields("frame", "A frame.", field("width", &Frame::width, "Its width.").at_least(1));
}
// With the fields that older formats had elsewhere, or as something else.
struct Page {
  Frame frame{};
  std::vector<Dot> dots{};
  nlohmann::json back{{"width", 1}};
  std::string paper = "white";
  std::vector<std::string> tags{};
  std::map<int, double> prices{};
};
inline Description describe(Of<Page>) {
  return fields("page", "A page.", field("frame", &Page::frame, "Around it.").inline_before(),
                field("dots", &Page::dots, "On it.").in_columns(),
                field("back", &Page::back, "Its other side.").object().optional(),
                field("paper", &Page::paper, "Of which color.").one_of("white", "gray").optional(),
                field("tags", &Page::tags, "Words.").unique().optional(),
                field("prices", &Page::prices, "By year.").optional());
}

struct Facts {
  Reported<std::string> name{};
  Reported<double> speed{};
  bool operator==(const Facts&) const = default;
};
inline Description describe(Of<Facts>) {
  return fields("facts", "What a machine says.",
                field("name", &Facts::name, "Its own.").left_out_by_default(),
                field("speed", &Facts::speed, "How fast it is.").left_out_by_default());
}

struct Outline {
  std::filesystem::path file{"a.svg"};
  std::vector<float> widths{};
  std::vector<std::int64_t> sizes{1};
  bool closed = false;
  double area = 2;

  static constexpr bool is_closed(const Outline& outline) { return outline.closed; }
};
inline Description describe(Of<Outline>) {
  return fields("outline", "An outline.", field("file", &Outline::file, "Where it is.").not_empty(),
                field("widths", &Outline::widths, "Of its lines.").optional(),
                field("sizes", &Outline::sizes, "Of its sides.").not_empty().between(1, 9),
                field("closed", &Outline::closed, "Whether it has an inside.").optional(),
                field("area", &Outline::area, "Of its inside.").written_if(&Outline::is_closed));
}
struct SignedOutline : Outline {
  std::string author{};
};
inline Description describe(Of<SignedOutline>) {
  return fields("signed_outline", "With a name.", field("author", &SignedOutline::author, "Who drew it."))
      .followed_by(describe(Of<Outline>{}));
}

struct Drawing {
  std::string title{};
  Color color = Color::red;
  std::vector<Point> points{}, path{};
  std::map<std::string, int> counts{};
  nlohmann::json notes = nlohmann::json::object();
  double loss = 0;
  bool operator==(const Drawing&) const = default;
};
inline Description describe(Of<Drawing>) {
  return fields("drawing", "A drawing.", field("title", &Drawing::title, "Its title.").not_empty(),
                field("color", &Drawing::color, "Of the line."),
                field("points", &Drawing::points, "Each an object."),
                field("path", &Drawing::path, "As columns.").in_columns(),
                field("counts", &Drawing::counts, "By name.").optional(),
                field("notes", &Drawing::notes, "Anything.").optional(),
                field("loss", &Drawing::loss, "NaN where it is null.").null_is_nan().optional());
}

}  // namespace codec_test

template <>
inline constexpr auto words<codec_test::Color> =
    std::array{Word{codec_test::Color::red, "red"}, Word{codec_test::Color::green, "green"}};

namespace codec_test {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const double nan = std::numeric_limits<double>::quiet_NaN();

Drawing sample() {
  return {.title = "a",
          .color = Color::green,
          .points = {{1, 0.5, 2.0}, {3, 4, {}}},
          .path = {{1, 2, {}}, {3, 4, {}}},
          .counts = {{"n", 2}},
          .notes = {{"any", {1, "x"}}},
          .loss = 1.5};
}

std::string error_of(const Json& json) {
  try {
    decoded<Drawing>(json, "d.json");
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}
Json changed(const char* pointer, Json value) {
  Json json = encode(sample());
  json[Json::json_pointer(pointer)] = std::move(value);
  return json;
}

TEST(Codec, ReadsBackWhatItWrote) { EXPECT_EQ(decoded<Drawing>(encode(sample())), sample()); }

TEST(Codec, WritesColumnsAsOneListPerField) {
  EXPECT_EQ(encode(sample())["path"], Json({{"x", {1, 3}}, {"y", {2.0, 4.0}}}));
}

TEST(Codec, ReadsAListOfObjectsWhereColumnsAreWritten) {
  EXPECT_EQ(decoded<Drawing>(changed("/path", {{{"x", 1}, {"y", 2.0}}, {{"x", 3}, {"y", 4.0}}})), sample());
}

TEST(Codec, LeavesOutDefaultsOnlyWhereAsked) {
  EXPECT_FALSE(encode(Point{}).contains("z"));
  EXPECT_TRUE(encode(Point{}).contains("x"));
}

TEST(Codec, KeepsNumbersThatAreNotFinite) {
  Drawing drawing = sample();
  drawing.points[0] = {1, -std::numeric_limits<double>::infinity(), nan};
  drawing.path = {{1, nan, std::numeric_limits<double>::infinity()}, {2, 0, {}}};
  const Json json = parse_strict_json(strict_json_text(encode(drawing)), "d.json");
  EXPECT_EQ(json["path"]["y"][0], "nan");
  const Drawing back = decoded<Drawing>(json);
  EXPECT_TRUE(std::isnan(back.points[0].z.value()));
  EXPECT_EQ(back.points[0].y, drawing.points[0].y);
  EXPECT_TRUE(std::isnan(back.path[0].y));
  EXPECT_EQ(back.path[0].z, drawing.path[0].z);
  EXPECT_FALSE(back.path[1].z);
}

TEST(StrictJson, EscapesTheControlsThatATerminalObeys) {
  const std::string text =
      "\x1b[1m \x7f \xc2\x9b"
      "31m \xc2\x80\xc2\x9f \xc2\xa0 \xc3\x97";
  const std::string json = strict_json_text(Json{{"reason", text}});
  EXPECT_EQ(json, "{\"reason\": \"\\u001b[1m \\u007f \\u009b31m \\u0080\\u009f \xc2\xa0 \xc3\x97\"}\n");
  EXPECT_EQ(parse_strict_json(json, "r.json")["reason"], text);
  EXPECT_EQ(with_escaped_controls("\xc2"), "\xc2");
}

TEST(StrictJson, LeavesOutAMarkAndNamesOtherEncodings) {
  EXPECT_EQ(parse_strict_json("\xef\xbb\xbf{\"a\": 1}", "r.json"), Json({{"a", 1}}));
  const auto reason = [](const std::string& text) {
    try {
      parse_strict_json(text, "r.json");
    } catch (const JsonError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  std::string little, big;
  for (const char c : std::string("{\"a\": 1}")) {
    little += std::string{c, '\0'};
    big += std::string{'\0', c};
  }
  for (const std::string& text : {little, big, "\xff\xfe" + little, "\xfe\xff" + big})
    EXPECT_THAT(reason(text), HasSubstr("r.json: is a text in UTF-16, and JSON is UTF-8"));
  EXPECT_THAT(reason("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
              HasSubstr("git lfs pull"));
  EXPECT_THAT(reason("\xef\xbb\xbf{"), HasSubstr("line 1, column 2"));
  EXPECT_THAT(reason(std::string("{}\0{", 4)), HasSubstr("byte 2 is 0"));
}

TEST(Codec, ReadsNullAsNanOnlyWhereTheFieldSaysSo) {
  EXPECT_TRUE(std::isnan(decoded<Drawing>(changed("/loss", nullptr)).loss));
  EXPECT_THAT(error_of(changed("/points/0/y", nullptr)), HasSubstr("d.json/points/0/y: is null"));
}

TEST(Codec, NamesThePathOfWhatIsWrong) {
  EXPECT_EQ(error_of(changed("/points/1/x", "one")), "d.json/points/1/x: should be an integer, is string");
  EXPECT_EQ(error_of(changed("/points/1/x", -1)), "d.json/points/1/x: -1 is below 0");
  EXPECT_EQ(error_of(changed("/points/1/x", 5'000'000'000)), "d.json/points/1/x: 5000000000 is out of range");
  EXPECT_EQ(error_of(changed("/points/1/x", 1.5)), "d.json/points/1/x: should be an integer, is number");
  EXPECT_EQ(error_of(changed("/title", "")), "d.json/title: is empty");
  EXPECT_EQ(error_of(changed("/color", "blue")), "d.json/color: \"blue\" is not one of red, green");
  EXPECT_EQ(error_of(changed("/counts/n", true)), "d.json/counts/n: should be an integer, is boolean");
  EXPECT_EQ(error_of(changed("/path/y/1", "x")), "d.json/path/y/1: should be a number, is string");
  EXPECT_EQ(error_of(changed("/path/y", {1.0})), "d.json/path/y: has 1 entries, the other columns 2");
  EXPECT_EQ(error_of(changed("/path", {{"x", {1}}})), "d.json/path: the column \"y\" is missing");
  EXPECT_EQ(error_of({{"title", "a"}}), "d.json: the field \"color\" is missing");
  EXPECT_EQ(error_of(Json::array()), "d.json: should be an object, is array");
}

TEST(Codec, IgnoresUnknownFieldsUnlessToldToRefuseThem) {
  const Json json = changed("/points/0/w", 3);
  EXPECT_EQ(decoded<Drawing>(json), sample());
  EXPECT_THROW(decoded<Drawing>(json, "d.json", {.reject_unknown = true}), JsonError);
}

TEST(Codec, CollectsEveryViolationWhenAsked) {
  Json json = changed("/points/0/x", -1);
  json["color"] = 3;
  json.erase("title");
  json["extra"] = 1;
  std::vector<std::string> violations;
  decoded<Drawing>(json, "", {.reject_unknown = true, .violations = &violations});
  EXPECT_THAT(violations, ElementsAre("color: should be text, is number", "extra: unknown field",
                                      "points/0/x: -1 is below 0", "the field \"title\" is missing"));
}

TEST(Codec, KeepsNoMoreViolationsThanAsked) {
  std::vector<std::string> violations;
  decoded<Drawing>(changed("/points", Json(100, 1)), "", {.violations = &violations, .max_violations = 3});
  EXPECT_THAT(violations, ElementsAre("points/0: should be an object, is number", HasSubstr("points/1"),
                                      HasSubstr("points/2")));
}

TEST(Codec, KeepsLittleOfAListThatIsAllWrong) {
  const Json list(100'000, 1);
  std::vector<std::string> violations;
  const auto read = decoded<std::vector<Drawing>>(list, "", {.violations = &violations, .max_violations = 3});
  EXPECT_EQ(violations.size(), 3U);
  EXPECT_LE(read.size(), 3U);
  std::vector<Drawing> refused;
  EXPECT_THROW(decode(list, refused), JsonError);
  EXPECT_LE(refused.capacity(), 4096U);
  std::map<std::string, Drawing> map;
  Json object = Json::object();
  for (int i = 0; i < 1000; ++i) object[std::to_string(i)] = 1;
  violations.clear();
  decode(object, map, "", {.violations = &violations, .max_violations = 3});
  EXPECT_LE(map.size(), 3U);
}

std::string page_error(const Json& json, DecodeOptions options = {}) {
  try {
    decoded<Page>(json, "", options);
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}

TEST(Codec, WritesAColumnOfOneValueAsThatValue) {
  const Page page{.frame = {3}, .dots = {{1, Color::green, {}}, {2, Color::green, {}}}};
  const Json json = encode(page);
  EXPECT_EQ(json["dots"], Json({{"at", {1, 2}}, {"color", "green"}}));
  EXPECT_EQ(decoded<Page>(json).dots, page.dots);
  const Page same{.frame = {3}, .dots = {{1, Color::red, {}}, {1, Color::red, {}}}};
  EXPECT_EQ(encode(same)["dots"], Json({{"at", {1, 1}}, {"color", "red"}}));
  EXPECT_EQ(decoded<Page>(encode(same)).dots, same.dots);
  EXPECT_EQ(encode(Page{})["dots"], Json::object());
  EXPECT_TRUE(decoded<Page>(encode(Page{.frame = {1}})).dots.empty());
}

TEST(Codec, LeavesOutColumnsOfDefaultsWhereAsked) {
  EXPECT_EQ(encode_columns(std::vector<Tick>{{1, 0}, {2, 0}}), Json({{"at", {1, 2}}}));
  EXPECT_EQ(encode_columns(std::vector<Tick>{{1, 0}, {2, 3}}), Json({{"at", {1, 2}}, {"count", {0, 3}}}));
  EXPECT_EQ(encode(Tick{1, 0}), Json({{"at", 1}, {"count", 0}}));
}

TEST(Codec, WritesAPartNextToTheFieldsOfItsOwner) {
  const Page page{.frame = {3},
                  .dots = {{1, Color::red, Shade{0.5, std::vector<std::string>{"low"}}},
                           {2, Color::green, Shade{0.5, std::vector<std::string>{}}},
                           {3, Color::green, {}}}};
  const Json json = encode(page);
  EXPECT_EQ(json["dots"]["tones"], Json({{"low"}, Json::array(), nullptr}));
  EXPECT_EQ(decoded<Page>(json).dots[0], page.dots[0]);
  EXPECT_EQ(decoded<Page>(json).dots[1], page.dots[1]);
}

TEST(Codec, ReadsWordsForNumbersOnlyInColumns) {
  Drawing drawing = sample();
  drawing.path[0].y = nan;
  EXPECT_EQ(encode(drawing)["path"]["y"][0], "nan");
  EXPECT_THAT(error_of(changed("/points/0/y", "nan")),
              HasSubstr("points/0/y: should be a number, is string"));
}

TEST(Codec, ReadsOlderFormsOnlyWhereAllowed) {
  const Json older{{"width", 3}, {"dots", {{{"at", 1}, {"color", "red"}}}}};
  EXPECT_EQ(decoded<Page>(older).frame.width, 3);
  EXPECT_EQ(decoded<Page>(older).dots.size(), 1U);
  EXPECT_EQ(page_error(older, {.older_forms = false}), "dots: should be an object of columns, is array");
  EXPECT_EQ(page_error({{"width", 3}, {"dots", Json::object()}}, {.older_forms = false}),
            "the field \"frame\" is missing");
  EXPECT_EQ(page_error({{"dots", Json::object()}}), "the field \"width\" is missing");
}

TEST(Codec, KeepsWhetherAnUnknownValueWasAskedFor) {
  for (const Json& json : {Json::object(), Json{{"name", nullptr}, {"speed", nullptr}},
                           Json{{"name", "a"}, {"speed", 0.5}}, Json{{"speed", nullptr}}})
    EXPECT_EQ(encode(decoded<Facts>(json)), json);
  const Facts facts{.name = std::nullopt};
  EXPECT_TRUE(facts.name.is_asked());
  EXPECT_FALSE(facts.name);
  EXPECT_NE(facts, Facts());
  EXPECT_EQ(decoded<Facts>({{"name", "a"}}).name, "a");
}

TEST(Codec, ChecksEachRule) {
  const Json good{{"frame", {{"width", 1}}}, {"dots", Json::object()}};
  const auto with = [&](const char* key, const Json& value) {
    Json json = good;
    json[key] = value;
    return page_error(json);
  };
  EXPECT_EQ(page_error(good), "");
  EXPECT_EQ(with("frame", {{"width", 0}}), "frame/width: 0 is below 1");
  EXPECT_EQ(with("back", {{"width", 5}, {"more", 1}}), "");
  EXPECT_EQ(with("back", 3), "back: should be an object, is number");
  EXPECT_EQ(with("paper", "red"), "paper: \"red\" is not one of white, gray");
  EXPECT_EQ(with("tags", {"a", "a"}), "tags: an entry is repeated");
  EXPECT_EQ(with("prices", {{"2020", 1.5}}), "");
  EXPECT_EQ(with("prices", {{"soon", 1.5}}), "prices/soon: is not a whole number");
  EXPECT_EQ(with("dots", {{"color", "red"}}), "dots: no column is a list: the number of rows is unknown");
  EXPECT_EQ(with("dots", {{"at", {1, 2}}}), "dots: the column \"color\" is missing");
}

TEST(Codec, AcceptsUnknownFieldsWhoseNameSaysThatTheyAre) {
  const Json json{{"frame", {{"width", 1}, {"x_depth", 2}}}, {"dots", Json::object()}, {"x_notes", "mine"}};
  EXPECT_EQ(page_error(json, {.reject_unknown = true}), "");
}

std::string outline_error(const Json& json, DecodeOptions options = {}) {
  try {
    decoded<Outline>(json, "o.json", options);
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}

TEST(Codec, WritesAFieldOnlyWhereItApplies) {
  EXPECT_FALSE(encode(Outline{}).contains("area"));
  EXPECT_EQ(encode(Outline{.closed = true})["area"], 2.0);
  EXPECT_EQ(decoded<Outline>({{"file", "b"}, {"sizes", {3}}, {"area", 5}}).area, 5);
  EXPECT_EQ(decoded<Outline>({{"file", "b"}, {"sizes", {3}}}).area, 2);
}

TEST(Codec, WritesTheFieldsOfABase) {
  SignedOutline outline;
  outline.author = "me";
  outline.widths = {0.5f};
  const Json json = encode(outline);
  EXPECT_EQ(
      json,
      Json({{"author", "me"}, {"file", "a.svg"}, {"widths", {0.5}}, {"sizes", {1}}, {"closed", false}}));
  const auto back = decoded<SignedOutline>(json);
  EXPECT_EQ(back.author, "me");
  EXPECT_EQ(back.file, "a.svg");
  EXPECT_EQ(back.widths, outline.widths);
}

TEST(Codec, ChecksListsAndTheirEntries) {
  const auto with = [](const char* key, const Json& value) {
    Json json{{"file", "b"}, {"sizes", {3}}};
    json[key] = value;
    return outline_error(json);
  };
  EXPECT_EQ(with("sizes", {1, 9}), "");
  EXPECT_EQ(with("sizes", Json::array()), "o.json/sizes: is empty");
  EXPECT_EQ(with("sizes", {1, 10}), "o.json/sizes/1: 10 is above 9");
  EXPECT_EQ(with("file", ""), "o.json/file: is empty");
  EXPECT_EQ(with("widths", {0, 1e39}), "o.json/widths/1: 1e+39 is out of range");
  EXPECT_EQ(with("widths", {"thin"}), "o.json/widths/0: should be a number, is string");
}

TEST(Codec, NamesTheFieldNextToAnUnknownOne) {
  const DecodeOptions strict{.reject_unknown = true, .allow_extensions = false};
  const Json good{{"file", "b"}, {"sizes", {3}}};
  Json near = good, extension = good;
  near["closd"] = true;
  extension["x_closed"] = true;
  EXPECT_EQ(outline_error(good, strict), "");
  EXPECT_EQ(outline_error(near, strict), "o.json/closd: unknown field; did you mean 'closed'?");
  EXPECT_THAT(outline_error(extension, strict), HasSubstr("o.json/x_closed: unknown field"));
}

TEST(Codec, ShortensKeysThatSomebodyElseWrote) {
  Json json = encode(sample());
  json["counts"][std::string(500, 'k')] = "x";
  EXPECT_THAT(error_of(json), Not(HasSubstr(std::string(81, 'k'))));
}

TEST(Schema, IsMadeOfTheDescription) {
  SchemaMaker maker;
  const Json drawing = maker.object<Drawing>();
  EXPECT_EQ(drawing["required"], Json({"title", "color", "points", "path"}));
  EXPECT_EQ(drawing["properties"]["title"],
            Json({{"description", "Its title."}, {"type", "string"}, {"minLength", 1}}));
  EXPECT_EQ(drawing["properties"]["color"]["enum"], Json({"red", "green"}));
  EXPECT_EQ(drawing["properties"]["points"]["items"], Json({{"$ref", "#/definitions/point"}}));
  const Json& point = maker.definitions().at("point");
  EXPECT_EQ(point["properties"]["x"], Json({{"description", "Along."}, {"type", "integer"}, {"minimum", 0}}));
  EXPECT_EQ(point["required"], Json({"x", "y"}));
  EXPECT_EQ(maker.definitions().at("point_columns")["properties"]["x"],
            Json({{"description", "Along."},
                  {"anyOf",
                   {{{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}},
                    {{"type", "integer"}, {"minimum", 0}}}}}));
}

TEST(Schema, SaysTheRulesOfEachField) {
  SchemaMaker maker;
  EXPECT_EQ(maker.object<Outline>()["properties"]["sizes"],
            Json({{"description", "Of its sides."},
                  {"type", "array"},
                  {"minItems", 1},
                  {"items", {{"type", "integer"}, {"minimum", 1}, {"maximum", 9}}}}));
  const Json page = maker.object<Page>()["properties"];
  EXPECT_EQ(page["paper"]["enum"], Json({"white", "gray"}));
  EXPECT_EQ(page["tags"]["uniqueItems"], true);
  EXPECT_EQ(page["prices"]["additionalProperties"], Json({{"type", {"number", "null"}}}));
  const Json& dots = maker.definitions().at("dot_columns");
  EXPECT_EQ(dots["anyOf"], Json({{{"maxProperties", 0}}, {{"required", {"at", "color"}}}}));
  EXPECT_EQ(dots["properties"]["depth"]["anyOf"][1],
            Json({{"anyOf", {{{"type", "number"}}, {{"enum", {"nan", "inf", "-inf"}}}}}}));
}

}  // namespace
}  // namespace codec_test
}  // namespace assay
