import type { LockPage, LockService } from 'nestjs-distributed-lock';

/** All pages of a list, one after the other. */
export async function pagesOf(
  service: LockService,
  prefix: string,
  limit: number,
): Promise<readonly LockPage[]> {
  const pages: LockPage[] = [];
  for (let cursor: string | undefined; pages.length < 1000;) {
    const page: LockPage = await service.list({ prefix, limit, cursor });
    pages.push(page);
    if (page.cursor === undefined) return pages;
    ({ cursor } = page);
  }
  throw new Error('The list has no end.');
}

export function keysIn(pages: readonly LockPage[]): readonly string[] {
  return pages.flatMap(({ entries }) => entries.map(({ key }) => key));
}
