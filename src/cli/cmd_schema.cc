// schema: JSON Schema texts, for editors and for readers of our JSON.
#include "attune/recipe_io/recipe_io.h"
#include "attune/store/store.h"
#include "commands.h"
#include "status_schema.h"

namespace attune::cli {
namespace {

class Schema final : public Command {
 public:
  void Declare(Options& options) override {
    options.Word("WHAT", what_, {"recipe", "events", "status"}, "which schema");
  }

  Result<int> Run(Wire& wire) override {
    if (what_.empty()) {
      return Fail(ErrorCode::kInvalidInput, "which schema?", "attune schema recipe");
    }
    wire.terminal().Out(what_ == "recipe"   ? RecipeJsonSchema()
                        : what_ == "events" ? EventsJsonSchema()
                                            : std::string(kStatusSchema));
    return kExitDone;
  }

 private:
  std::string what_;
};

}  // namespace

std::unique_ptr<Command> MakeSchema() { return std::make_unique<Schema>(); }

}  // namespace attune::cli
