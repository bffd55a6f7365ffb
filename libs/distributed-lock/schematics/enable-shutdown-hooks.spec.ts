import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { enableShutdownHooks } from './enable-shutdown-hooks.js';
import { SourceText } from './source-text.js';

function enabled(text: string): string {
  const outcome = enableShutdownHooks(new SourceText(ts, 'main.ts', text));
  if (outcome.kind === 'changed') return outcome.text;
  return outcome.kind === 'present' ? 'present' : `by hand: ${outcome.reason}`;
}

const CREATE = 'const app = await NestFactory.create(AppModule)';
const CALL = 'app.enableShutdownHooks()';

describe('shutdown hooks are enabled', () => {
  /** The text of the edit, with each insertion in «». */
  it.each([
    [
      'in a function',
      `async function bootstrap() {\n  ${CREATE};\n«  ${CALL};\n»  await app.listen(3000);\n}\n`,
    ],
    [
      'in an arrow function with tabs',
      `const bootstrap = async () => {\n\t${CREATE};\n«\t${CALL};\n»\tawait app.listen(3000);\n};\n`,
    ],
    ['at the top level', `${CREATE};\n«${CALL};\n»await app.listen(3000);\n`],
    ['without semicolons', `${CREATE}\n«${CALL}\n»await app.listen(3000)\n`],
    ['with CRLF', `${CREATE};\r\n«${CALL};\r\n»await app.listen(1);\r\n`],
    ['behind a comment on the line', `  ${CREATE}; // the app\n«  ${CALL};\n»  await app.listen(3000);\n`],
    ['on one line', `async function run() { ${CREATE}; «${CALL}; »await app.listen(3000); }\n`],
    ['at the end of a file without a line end', `${CREATE};«\n${CALL};»`],
    [
      'behind a call of several lines',
      `  const app = await NestFactory.create<NestExpressApplication>(AppModule, {\n    cors: true,\n  });\n«  ${CALL};\n»  await app.listen(1);\n`,
    ],
    [
      'for a variable of another name, with a type',
      'const server = (await NestFactory.create(AppModule)) as Server;\n«server.enableShutdownHooks();\n»',
    ],
    [
      'for a variable that is declared before',
      `let app: INestApplication;\nif (x) {\n  app = await NestFactory.create(A);\n«  ${CALL};\n»}\n`,
    ],
    ['for a microservice', `const app = await NestFactory.createMicroservice(AppModule, {});\n«${CALL};\n»`],
  ])('%s', (_, marked) => {
    const after = marked.replaceAll(/[«»]/g, '');
    expect(enabled(marked.replaceAll(/«[^»]*»/g, ''))).toBe(after);
    expect(enabled(after)).toBe('present');
  });

  it('for the application of two that has none', () => {
    const before = `${CREATE};\n${CALL};\nconst other = await NestFactory.create(B);\n`;
    expect(enabled(before)).toBe(`${before}other.enableShutdownHooks();\n`);
  });

  it('although a comment mentions them', () => {
    expect(enabled(`${CREATE};\n// ${CALL};\n`)).toBe(`${CREATE};\n${CALL};\n// ${CALL};\n`);
  });

  it('not once more where the call is chained', () => {
    const chained = 'await (await NestFactory.create(A)).enableShutdownHooks().listen(3000);';
    expect(enabled(`async function bootstrap() {\n  ${chained}\n}\n`)).toBe('present');
  });

  it.each([
    ['the result of NestFactory is not awaited', 'NestFactory.create(A).then((app) => app.listen(3000));\n'],
    ['the result of NestFactory is not awaited', 'const app = NestFactory.create(A);\n'],
    ['the application is not kept in a variable', '(await NestFactory.create(A)).listen(3000);\n'],
    ['the application is not made in a statement of its own', 'if (x) app = await NestFactory.create(A);\n'],
    ['it has no call of NestFactory.create', 'bootstrap();\n'],
    ['the file has syntax errors', `${CREATE};\nfunction {\n`],
  ])('by hand, because %s', (reason, text) => {
    expect(enabled(text)).toContain(`by hand: ${reason}`);
  });
});
