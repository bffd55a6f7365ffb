// npm run bench -- [compare]: measures the libraries, or asks each the same questions.
const isComparison = process.argv[2] === 'compare';
if (isComparison) process.argv.splice(2, 1);
await (isComparison ? import('./compare/main.mjs') : import('./src/main.mjs'));
