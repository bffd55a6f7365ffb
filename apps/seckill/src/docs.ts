import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';

/** Swagger UI at /docs. The document is made on the first request. */
export function serveDocs(app: INestApplication): void {
  const about = new DocumentBuilder()
    .setTitle('The flash sale')
    .setDescription('Every purchase runs under the lock of its item, on whichever instance it arrives.')
    .build();
  SwaggerModule.setup('docs', app, () => SwaggerModule.createDocument(app, about));
}
