import { Module } from '@nestjs/common';
import { GoodsController } from './goods.controller.js';
import { GoodsRepository } from './goods.repository.js';
import { RestockService } from './restock.service.js';

@Module({
  controllers: [GoodsController],
  providers: [GoodsRepository, RestockService],
  exports: [GoodsRepository],
})
export class GoodsModule {}
