// SPDX-License-Identifier: Apache-2.0
/* api/shape_rows.h - short macros for tables of shapes; only for files with such tables. */
#pragma once
#include "api/shape.h"

#define N SHAPE_NULL
#define L SHAPE_LIST
#define M SHAPE_MAYBE
/* clang-format off */
#define STR(name, flags) {name, SHAPE_STR, flags}
#define ID(name, flags) {name, SHAPE_ID, flags}
#define TIME(name, flags) {name, SHAPE_TIME, flags}
#define INT(name, flags) {name, SHAPE_INT, flags}
#define NUM(name, flags) {name, SHAPE_NUM, flags}
#define BOOL(name) {name, SHAPE_BOOL}
#define WORD(name, flags, words_) {name, SHAPE_WORD, flags, .words = words_}
#define NAME(name, flags, of_) {name, SHAPE_NAME, flags, .of = of_}
#define OBJ(name, flags, shape_) {name, SHAPE_OBJ, flags, .shape = &shape_}
#define ROWS(...) (const struct shape_row[]){__VA_ARGS__, {NULL}}
#define PART(id, ...) static const struct shape id = {NULL, ROWS(__VA_ARGS__)}
/* clang-format on */
