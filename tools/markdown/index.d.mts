/** Markdown that a program has made, formatted as `npm run lint` wants it. @throws Error what cannot be read */
export function formatMarkdown(text: string): Promise<string>;
