#include "csv.h"

namespace attune::corpus {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<std::vector<std::vector<std::string>>> Run() {
    std::vector<std::vector<std::string>> records;
    while (at_ < text_.size()) {
      ATTUNE_TRY(std::vector<std::string> record, Record());
      records.push_back(std::move(record));
    }
    return records;
  }

 private:
  tl::unexpected<Error> Bad(const std::string& why) const {
    return Fail(ErrorCode::kInvalidInput, "line " + std::to_string(line_) + ": " + why);
  }
  bool AtEnd() const {
    return at_ >= text_.size() || text_[at_] == '\n' ||
           (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n');
  }

  Result<std::vector<std::string>> Record() {
    std::vector<std::string> fields;
    while (true) {
      std::string field;
      if (at_ < text_.size() && text_[at_] == '"') {
        ATTUNE_TRY(field, Quoted());
        if (!AtEnd() && text_[at_] != ',') return Bad("text after a closing quote");
      } else {
        while (!AtEnd() && text_[at_] != ',') {
          if (text_[at_] == '"') return Bad("a quote inside a field that is not quoted");
          field += text_[at_++];
        }
      }
      fields.push_back(std::move(field));
      if (AtEnd()) break;
      ++at_;  // the comma
    }
    if (at_ < text_.size()) at_ += text_[at_] == '\r' ? 2 : 1;
    ++line_;
    return fields;
  }

  Result<std::string> Quoted() {
    std::string out;
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\n') ++line_;
      if (c != '"') {
        out += c;
      } else if (at_ < text_.size() && text_[at_] == '"') {
        out += '"';
        ++at_;
      } else {
        return out;
      }
    }
    return Bad("a quoted field is not closed");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<std::vector<std::string>>> ParseCsv(std::string_view text) {
  return Reader(text).Run();
}

}  // namespace attune::corpus
