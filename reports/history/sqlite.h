// SPDX-License-Identifier: Apache-2.0
// SQLite with exceptions and scopes: what history.cpp needs of it. A file that cannot be used (no database, damaged,
// read-only) throws Error; what may succeed at another time (locked, disk full) throws std::runtime_error. Either way a
// transaction that was not committed is undone.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace duet::history {

enum class Access { read, write, create };

class Database {
 public:
  // wait_ms: how long a statement waits for another process's lock.
  Database(const std::string& path, Access access, int wait_ms);
  Database(const Database&) = delete;
  ~Database();

  void execute(const char* sql);  // one statement or several, without results
  int64_t integer(const char* sql);
  int64_t last_id() const;
  bool in_transaction() const;
  const std::string& path() const { return path_; }
  [[noreturn]] void fail(int status) const;

 private:
  friend class Statement;
  void open(const std::string& name, int flags);
  std::string path_;
  sqlite3* handle_ = nullptr;
  int wait_ms_;
};

// Parameters and columns count from 0.
class Statement {
 public:
  Statement(Database& database, const char* sql);
  Statement(const Statement&) = delete;
  ~Statement();

  template <class... Values>
  Statement& bind(const Values&... values) {
    reset();
    int at = 0;
    (set(at++, values), ...);
    return *this;
  }
  bool step();  // false where there is no further row
  void run();   // to the end

  bool is_null(int column) const;
  int64_t integer(int column) const;
  double number(int column) const;
  std::optional<double> optional_number(int column) const;
  std::string text(int column) const;

 private:
  void reset();
  void set(int at, int64_t value);
  void set(int at, bool value) { set(at, int64_t{value}); }
  void set(int at, double value);
  void set(int at, std::string_view value);
  void set(int at, const char* value) { set(at, std::string_view(value)); }
  template <class T>
  void set(int at, const std::optional<T>& value) {
    if (value) set(at, *value);  // what is not set is NULL
  }
  void check(int status) const;

  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
};

// Undone at the end of the scope unless committed. Takes the right to write at once, so that nothing that was read
// inside is outdated when it is written.
class Transaction {
 public:
  explicit Transaction(Database& database);
  Transaction(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  Database& database_;
};

}  // namespace duet::history
