// schema: JSON Schema texts, for editors and for readers of our JSON.
#include "attune/recipe_io/recipe_io.h"
#include "commands.h"

namespace attune::cli {
namespace {

class Schema final : public Command {
 public:
  void Declare(Options& options) override {
    options.Word("WHAT", what_, {"recipe"}, "which schema");
  }

  Result<int> Run(Wire& wire) override {
    if (what_.empty()) {
      return Fail(ErrorCode::kInvalidInput, "which schema?", "attune schema recipe");
    }
    wire.terminal().Out(RecipeJsonSchema());
    return kExitDone;
  }

 private:
  std::string what_;
};

}  // namespace

std::unique_ptr<Command> MakeSchema() { return std::make_unique<Schema>(); }

}  // namespace attune::cli
