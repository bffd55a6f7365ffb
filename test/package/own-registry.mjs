// A registry on loopback that has one package, the packed library; for every other it sends npm to the usual registry.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';

/** Its `url` is for `npm_config_registry`. */
export async function startRegistry(tarball, manifest, upstream) {
  const bytes = readFileSync(tarball);
  const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, url);
    if (pathname === `/${manifest.name}`) {
      const version = { ...manifest, dist: { tarball: `${url}${manifest.name}.tgz`, integrity } };
      const versions = { [manifest.version]: version };
      const all = { name: manifest.name, 'dist-tags': { latest: manifest.version }, versions };
      response.setHeader('content-type', 'application/json').end(JSON.stringify(all));
    } else if (pathname === `/${manifest.name}.tgz`) {
      response.end(bytes);
    } else {
      response.writeHead(302, { location: new URL(request.url.slice(1), upstream).href }).end();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${server.address().port}/`;
  return {
    url,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
