// SPDX-License-Identifier: Apache-2.0
#include "reports/history/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <filesystem>
#include <new>

#include "core/error.h"

namespace duet::history {
namespace {

namespace fs = std::filesystem;

// For SQLite's file: notation, in which % ? # have a meaning.
std::string uri_of(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#')
      uri += fmt::format("%{:02x}", c);
    else
      uri += c;
  }
  return uri;
}

}  // namespace

Database::Database(const std::string& path, Access access, int wait_ms) : path_(path), wait_ms_(wait_ms) {
  if (path.empty()) throw Error("the name of the database is empty");
  if (path.find('\0') != std::string::npos) throw Error("the name of the database holds a character 0");
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (exists && !fs::is_regular_file(path, error)) throw Error("{}: is not a regular file", path);
  if (!exists && access != Access::create) throw Error("{}: there is no such database", path);
  // An absolute name: SQLite gives names such as :memory: a meaning of their own.
  const std::string name = fs::absolute(path).string();
  const int flags = access == Access::read    ? SQLITE_OPEN_READONLY
                    : access == Access::write ? SQLITE_OPEN_READWRITE
                                              : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  try {
    open(name, flags);
    const int first = sqlite3_exec(handle_, "SELECT 1 FROM sqlite_schema", nullptr, nullptr, nullptr) & 0xff;
    if (access == Access::read && (first == SQLITE_CANTOPEN || first == SQLITE_READONLY)) {
      // In a folder that cannot be written, SQLite cannot lay its lock file beside the database. Where no other process
      // has left a journal, it can be read without one.
      sqlite3_close(handle_);
      handle_ = nullptr;
      open(uri_of(name) + (fs::exists(name + "-wal", error) ? "" : "?immutable=1"), flags | SQLITE_OPEN_URI);
    }
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);  // no statement can damage the file
    execute("PRAGMA foreign_keys = ON");
  } catch (...) {
    sqlite3_close(handle_);
    throw;
  }
}

Database::~Database() { sqlite3_close(handle_); }

void Database::open(const std::string& name, int flags) {
  const int status = sqlite3_open_v2(name.c_str(), &handle_, flags, nullptr);
  if (!handle_) throw std::bad_alloc();
  sqlite3_extended_result_codes(handle_, 1);
  if (status != SQLITE_OK) fail(status);
  sqlite3_busy_timeout(handle_, wait_ms_);
}

void Database::fail(int status) const {
  const std::string detail = sqlite3_errmsg(handle_);
  const bool full = sqlite3_system_errno(handle_) == ENOSPC;
  switch (status & 0xff) {
    case SQLITE_NOMEM:
      throw std::bad_alloc();
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw std::runtime_error(fmt::format(
          "{}: another process has locked it for {:.3g} s or more; nothing was changed", path_, wait_ms_ * 1e-3));
    case SQLITE_FULL:
      throw std::runtime_error(path_ + ": the disk is full; nothing was changed");
    case SQLITE_READONLY:
      throw Error("{}: cannot be written: the file or its folder is read-only", path_);
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      throw Error("{}: cannot be opened: the folder is missing, or permission is", path_);
    case SQLITE_NOTADB:
      throw Error("{}: is not a database of SQLite, or its beginning is damaged", path_);
    case SQLITE_CORRUPT:
      throw Error("{}: is damaged ({}): restore it, or import an export of it into a new one", path_, detail);
    case SQLITE_IOERR:
      if (full) throw std::runtime_error(path_ + ": the disk is full; nothing was changed");
      throw std::runtime_error(fmt::format("{}: cannot be read or written ({}); nothing was changed", path_, detail));
    case SQLITE_ERROR:
    case SQLITE_MISMATCH:  // tables that are not those of the schema
      throw Error("{}: is not a history of duet, or its tables were changed ({})", path_, detail);
    default:
      throw std::runtime_error(fmt::format("{}: {}; nothing was changed", path_, detail));
  }
}

void Database::execute(const char* sql) {
  if (const int status = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr); status != SQLITE_OK) fail(status);
}

int64_t Database::integer(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

int64_t Database::last_id() const { return sqlite3_last_insert_rowid(handle_); }
bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

Statement::Statement(Database& database, const char* sql) : database_(database) {
  check(sqlite3_prepare_v2(database.handle_, sql, -1, &handle_, nullptr));
}
Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::check(int status) const {
  if (status != SQLITE_OK) database_.fail(status);
}

void Statement::reset() {
  sqlite3_reset(handle_);  // repeats the error of the last step, which was reported
  sqlite3_clear_bindings(handle_);
}

void Statement::set(int at, int64_t value) { check(sqlite3_bind_int64(handle_, at + 1, value)); }
void Statement::set(int at, double value) { check(sqlite3_bind_double(handle_, at + 1, value)); }
void Statement::set(int at, std::string_view value) {
  check(sqlite3_bind_text64(handle_, at + 1, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

bool Statement::step() {
  const int status = sqlite3_step(handle_);
  if (status == SQLITE_ROW) return true;
  if (status != SQLITE_DONE) database_.fail(status);
  return false;
}

void Statement::run() {
  while (step()) {
  }
  sqlite3_reset(handle_);
}

bool Statement::is_null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }
int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }
double Statement::number(int column) const { return sqlite3_column_double(handle_, column); }
std::optional<double> Statement::optional_number(int column) const {
  if (is_null(column)) return {};
  return number(column);
}
std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(handle_, column))) : std::string();
}

Transaction::Transaction(Database& database) : database_(database) { database.execute("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (!database_.in_transaction()) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const std::exception&) {  // closing the database undoes it, too
  }
}

void Transaction::commit() { database_.execute("COMMIT"); }

}  // namespace duet::history
