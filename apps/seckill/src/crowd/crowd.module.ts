import { Module } from '@nestjs/common';
import { GoodsModule } from '../goods/goods.module.js';
import { CrowdController } from './crowd.controller.js';
import { CrowdService } from './crowd.service.js';
import { ResetService } from './reset.service.js';

@Module({
  imports: [GoodsModule],
  controllers: [CrowdController],
  providers: [CrowdService, ResetService],
  exports: [CrowdService],
})
export class CrowdModule {}
