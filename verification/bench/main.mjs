// npm run bench -- [all | compare]: measures the libraries on a store or on each, or asks each library the same questions.
const PROGRAMS = { all: './src/all.mjs', compare: './compare/main.mjs' };
const program = PROGRAMS[process.argv[2]];
if (program) process.argv.splice(2, 1);
await import(program ?? './src/main.mjs');
