type Pages = Readonly<Record<string, string>>;

/** By locale and group: the files of the pages, and their names in the sidebar. */
export const SIDEBAR: Readonly<Record<'root' | 'zh', Readonly<Record<string, Pages>>>>;

export function decisionFiles(): string[];

/** Markdown with other targets of its links; code stays as it is. */
export function mapLinks(markdown: string, change: (link: string) => string): string;

/**
 * The links of a built site that lead to no file of it, or to no anchor in the page they lead to. Links to other sites
 * are not followed.
 */
export function deadLinks(folder: string, site: URL): string[];

/** A page with the parts of a README that it names. @throws Error for a part that the README does not have */
export function withParts(markdown: string, read: (file: string) => string): string;
